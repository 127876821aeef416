# Definitions come and go in ways that a worker could miss.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('definitions');
two_streams($node);

sub join_state
{
	my ($name) = @_;
	return $node->safe_psql('postgres', "SELECT state FROM sjoin.joins WHERE join_name::text = '$name'");
}

# The first start fails, and so does the next; then it may.
$node->safe_psql('postgres', q{
	CREATE ROLE owner;
	GRANT CREATE ON SCHEMA public TO owner;
	GRANT SELECT ON a, b TO owner;
	BEGIN;
	SET ROLE owner;
	SELECT sjoin.create_join('result', 'SELECT a.id AS a_id, b.id AS b_id, a.k FROM a LEFT JOIN b
		ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''', with_data => false);
	RESET ROLE;
	REVOKE SELECT ON a FROM owner;
	COMMIT;});
ok($node->poll_query_until('postgres', "SELECT errors >= 2 FROM sjoin.stat_joins"), 'the first start fails');
is(join_state('result'), 'failed', 'and is tried again');
$node->safe_psql('postgres', "INSERT INTO a (k, ts) VALUES (1, " . at(0) . "); INSERT INTO b (k, ts) VALUES (1, " . at(1) . ')');
$node->safe_psql('postgres', 'GRANT SELECT ON a TO owner');
wait_and_verify($node, 'granted');
is($node->safe_psql('postgres', 'SELECT count(*) FROM result'), '1', 'nothing was missed meanwhile');

# The result gets another owner while a batch waits to be written: it is written as the new one.
$node->safe_psql('postgres', q{
	CREATE ROLE other;
	GRANT SELECT ON a, b TO other;
	GRANT CREATE ON SCHEMA public TO other;
	CREATE TABLE who (name name);
	GRANT INSERT ON who TO other;
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.who VALUES (current_user); RETURN NEW; END $$;
	CREATE TRIGGER note BEFORE INSERT ON result FOR EACH ROW EXECUTE FUNCTION note();});
my $errors = $node->safe_psql('postgres', 'SELECT errors FROM sjoin.stat_joins');
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; ALTER TABLE result OWNER TO other');
$node->safe_psql('postgres', "INSERT INTO b (k, ts) VALUES (1, " . at(2) . ')');
ok($node->poll_query_until('postgres', "SELECT errors > $errors FROM sjoin.stat_joins"), 'the batch waits');
$session->query_safe('COMMIT');
$session->quit;
wait_and_verify($node, 'another owner');
is($node->safe_psql('postgres', 'SELECT DISTINCT name FROM who'), 'other', 'and nobody else');

# Joins dropped and created at the same time over the same streams: all that is left is captured.
$node->safe_psql('postgres', 'DROP TABLE result');
my @sessions = map { $node->background_psql('postgres') } 1 .. 2;
$_->query_safe("SET client_min_messages = warning") for @sessions;
for my $round (1 .. 5)
{
	$sessions[0]->query_safe("SELECT sjoin.create_join('old', 'SELECT a.id FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''')");
	$sessions[0]->query_safe("BEGIN; SELECT sjoin.drop_join('old')");
	$sessions[1]->{stdin} .= "SELECT sjoin.create_join('result', 'SELECT a.id AS a_id, b.id AS b_id, a.k FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''');\n";
	$sessions[1]->{run}->pump_nb;
	$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%create_join(''result''%' AND pid <> pg_backend_pid()");
	$sessions[0]->query_safe('COMMIT');
	$sessions[1]->query_safe('SELECT 1');
	$node->safe_psql('postgres', "INSERT INTO a (k, ts) VALUES ($round + 10, " . at(10) . "); INSERT INTO b (k, ts) VALUES ($round + 10, " . at(11) . ')');
	wait_and_verify($node, "round $round");
	is($node->safe_psql('postgres', "SELECT count(*) FROM result WHERE k = $round + 10"), '1', 'captured');
	$node->safe_psql('postgres', 'DROP TABLE result');
}
$_->quit for @sessions;

# create_join waits for a writer and a command queues behind the writer, too: neither waits for the other.
my ($writer, $creator, $ddl) = map { $node->background_psql('postgres') } 1 .. 3;
$creator->query_safe('SET client_min_messages = warning');
$writer->query_safe("BEGIN; INSERT INTO a (k, ts) VALUES (1, " . at(20) . ')');
$creator->{stdin} .= q{SELECT sjoin.create_join('queued', 'SELECT a.id FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''');} . "\n";
$creator->{run}->pump_nb;
ok($node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%create_join(''queued''%' AND wait_event_type = 'Extension'}),
	'create_join waits for the writer');
$ddl->{stdin} .= "ALTER TABLE a ADD COLUMN more int;\n";
$ddl->{run}->pump_nb;
ok($node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'ALTER TABLE a%' AND wait_event_type = 'Lock'}),
	'and a command with it');
$writer->query_safe('COMMIT');
$ddl->query_safe('SELECT 1');
$creator->query_safe('SELECT 1');
is(join_state('queued') ne '', 1, 'both have come through');
$_->quit for $writer, $creator, $ddl;
$node->safe_psql('postgres', 'DROP TABLE queued; ALTER TABLE a DROP COLUMN more');

# The extension goes and comes back: numbers start again, joins are new.
$node->safe_psql('postgres', 'SET client_min_messages = error; DROP EXTENSION sjoin CASCADE; CREATE EXTENSION sjoin');
two_new_streams();
left_join($node);
$node->safe_psql('postgres', "INSERT INTO a (k, ts) VALUES (99, " . at(0) . "); INSERT INTO b (k, ts) VALUES (99, " . at(1) . ')');
wait_and_verify($node, 'a new extension');
is($node->safe_psql('postgres', 'SELECT count(*) FROM sjoin.join_stats()'), '1', 'with one slot');

sub two_new_streams
{
	$node->safe_psql('postgres', q{
		TRUNCATE a, b;
		SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s');
		SELECT sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
	});
}

# A database whose worker was sent away for a command that failed gets it back; one that is dropped takes its joins along.
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', q{
	CREATE EXTENSION sjoin;
	CREATE TABLE a (k int, ts timestamptz);
	CREATE TABLE b (k int, ts timestamptz);
	SELECT sjoin.create_join('result', 'SELECT a.k FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''');
	SELECT sjoin.wait_for()});
my $guest = $node->background_psql('other');
my $dropper = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $dropper->query('SELECT pg_backend_pid()');
$dropper->{stdin} .= "ALTER DATABASE other RENAME TO another;\n";
$dropper->{run}->pump_nb;
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM sjoin.stat_workers WHERE datname = 'other'"), 'the worker is sent away');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
$guest->quit;
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM sjoin.stat_workers WHERE datname = 'other'"), 'and comes back');
is($node->safe_psql('other', "SELECT sjoin.wait_for('result')"), 't', 'and works');
$node->safe_psql('postgres', 'DROP DATABASE other');
ok($node->poll_query_until('postgres', "SELECT sum(joins) = 1 FROM sjoin.stat_workers"), 'a dropped database leaves no joins');

# More databases than sjoin works in: those without joins are only looked into.
for my $i (1 .. 66)
{
	$node->safe_psql('postgres', "CREATE DATABASE d$i STRATEGY file_copy");
}
$node->restart;
$node->safe_psql('postgres', "INSERT INTO b (k, ts) VALUES (99, " . at(2) . ')');
wait_and_verify($node, 'with many databases');

done_testing();
