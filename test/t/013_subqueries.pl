# Sub-queries of the target list that cannot be run for the moment: no row is refused for it.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('subqueries');
two_streams($node);
$node->safe_psql('postgres', q{
	CREATE ROLE owner;
	GRANT CREATE ON SCHEMA public TO owner;
	CREATE TABLE names (k int, name text);
	INSERT INTO names VALUES (1, 'one'), (2, 'two');
	CREATE MATERIALIZED VIEW counts AS SELECT count(*) AS n FROM names;
	GRANT SELECT ON a, b, names, counts TO owner;
	SET ROLE owner;
	SELECT sjoin.create_join('result', 'SELECT a.id AS a_id, b.id AS b_id, a.k, (SELECT n.name FROM names n WHERE n.k = a.k) AS name,
			(SELECT n FROM counts) AS n, ARRAY(SELECT g FROM generate_series(0, a.k) g) AS numbers
		FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''');
	SELECT sjoin.wait_for('result')});

sub pair
{
	my ($k, $second) = @_;
	$node->safe_psql('postgres', "INSERT INTO a (k, ts) VALUES ($k, " . at($second) . "); INSERT INTO b (k, ts) VALUES ($k, " . at($second) . ')');
}

# $reason: a pattern of sjoin.joins.last_error
sub fails
{
	my ($reason, $name) = @_;
	ok($node->poll_query_until('postgres', "SELECT state = 'failed' AND last_error ~ '$reason' FROM sjoin.joins"), $name);
}

sub row_of
{
	my ($k) = @_;
	return $node->safe_psql('postgres', "SELECT name, n, numbers FROM result WHERE k = $k");
}

pair(1, 0);
wait_and_verify($node, 'before');
is(row_of(1), 'one|2|{0,1}', 'a pair');

# The owner may not read a table any more.
$node->safe_psql('postgres', 'REVOKE SELECT ON names FROM owner');
pair(2, 1);
fails('permission denied for table names', 'a right is lost');
$node->safe_psql('postgres', 'GRANT SELECT ON names TO owner');
wait_and_verify($node, 'granted again');
is(row_of(2), 'two|2|{0,1,2}', 'the row has waited');

# A materialized view has no data: an error that has nothing to do with a row.
$node->safe_psql('postgres', 'REFRESH MATERIALIZED VIEW counts WITH NO DATA');
pair(3, 2);
fails('materialized view "counts" has not been populated', 'a view without data');
$node->safe_psql('postgres', 'REFRESH MATERIALIZED VIEW counts');
wait_and_verify($node, 'populated again');
is(row_of(3), '|2|{0,1,2,3}', 'the row has waited');

# A table is locked: the worker gives way, and tries again.
my $session = $node->background_psql('postgres');
my $errors = $node->safe_psql('postgres', 'SELECT errors FROM sjoin.stat_joins');
$session->query_safe("BEGIN; LOCK TABLE names; INSERT INTO names VALUES (4, 'four')");
pair(4, 3);
ok($node->poll_query_until('postgres', "SELECT errors > $errors FROM sjoin.stat_joins"), 'a locked table');
$session->query_safe('COMMIT');
$session->quit;
wait_and_verify($node, 'unlocked');
is(row_of(4), 'four|2|{0,1,2,3,4}', 'the row has waited');

# After a crash the state is rebuilt; what was written is not written again.
$node->safe_psql('postgres', "INSERT INTO a (k, ts) VALUES (5, " . at(4) . "); UPDATE names SET name = 'eins' WHERE k = 1");
wait_and_verify($node, 'before the crash');
kill_and_start($node);
$node->safe_psql('postgres', "INSERT INTO b (k, ts) VALUES (5, " . at(5) . "), (1, " . at(3) . ')');
wait_and_verify($node, 'after the crash');
is(row_of(1), "one|2|{0,1}\neins|2|{0,1}", 'each row as it was when it was written');
is($node->safe_psql('postgres', 'SELECT count(*) FROM sjoin.late_rows'), '0', 'no row was refused');

# The result gets another owner, who may not read it all.
$node->safe_psql('postgres', q{
	CREATE ROLE other;
	GRANT SELECT ON a, b, counts TO other;
	GRANT CREATE ON SCHEMA public TO other;
	ALTER TABLE result OWNER TO other;});
pair(6, 6);
fails('permission denied for table names', 'another owner');
$node->safe_psql('postgres', 'GRANT SELECT ON names TO other');
wait_and_verify($node, 'who may');
is(row_of(6), '|2|{0,1,2,3,4,5,6}', 'the row has waited');

done_testing();
