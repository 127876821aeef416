# Results that are renamed, moved and given away while they are written; inputs, columns and views that are renamed under them.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('moves');
two_streams($node);

sub run
{
	return $node->safe_psql('postgres', $_[0]);
}

my $pairs = 0;

# A pair and a correction, the rows in their transactions; then the comparison
sub goes_on
{
	my ($what, $result) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$pairs++;
	run("INSERT INTO a VALUES (DEFAULT, $pairs, " . at(100 * $pairs) . ')');
	run("INSERT INTO b VALUES (DEFAULT, $pairs, " . at(100 * $pairs + 1) . ')');
	wait_and_verify($node, $what, $result);
	is(run("SELECT count(*) FROM $result"), $pairs, "$what: rows before and after");
}

sub place
{
	my ($like) = @_;
	return run("SELECT string_agg(concat_ws(' ', relnamespace::regnamespace, relname, relowner::regrole), ', ' ORDER BY relname)
		FROM pg_class WHERE relname LIKE '$like' AND relkind IN ('r', 'v')");
}

run(q{
	CREATE ROLE one; CREATE ROLE two;
	GRANT ALL ON SCHEMA public TO one, two;
	GRANT SELECT ON a, b TO one;
	SET ROLE one;
	SELECT sjoin.create_join('result', 'SELECT a.id AS a_id, b.id AS b_id, a.k FROM a LEFT JOIN b
		ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''')});
goes_on('at first', 'result');

# -- the result has columns and triggers of its user's
run('ALTER TABLE result ADD COLUMN noted text; ALTER TABLE result ADD COLUMN extra int DEFAULT 7');
goes_on('more columns', 'result');
is(run('SELECT string_agg(extra::text, \',\') FROM result'), '7,7', 'with their defaults');
run('ALTER TABLE result DROP COLUMN noted');
goes_on('one column less', 'result');
run('ALTER TABLE result DROP COLUMN extra; ALTER TABLE result RENAME COLUMN k TO key');
goes_on('a renamed column', 'result');

# -- renamed
run('ALTER TABLE result RENAME TO renamed');
goes_on('renamed', 'renamed');
is(run('SELECT join_name FROM sjoin.joins'), 'renamed', 'shown under its new name');
run('ALTER TABLE renamed RENAME TO result');

# -- moved: the view goes along, under another name if need be
run('CREATE SCHEMA there; GRANT ALL ON SCHEMA there TO one, two; ALTER TABLE result SET SCHEMA there');
is(place('result%'), 'there result one, there result_query one', 'moved with its view');
goes_on('moved', 'there.result');
run('CREATE SCHEMA elsewhere; GRANT ALL ON SCHEMA elsewhere TO one, two; CREATE VIEW elsewhere.result_query AS SELECT 1; ALTER TABLE there.result SET SCHEMA elsewhere; DROP SCHEMA there');
is(place('result%'), 'elsewhere result one, elsewhere result_query postgres, elsewhere result_query1 one', 'under another name');
goes_on('moved again', 'elsewhere.result');
run('ALTER SCHEMA elsewhere RENAME TO here');
goes_on('in a renamed schema', 'here.result');
# where a row is retracted, and where a trigger makes rows come by a statement
run(q{CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
	CREATE TRIGGER note BEFORE INSERT ON here.result FOR EACH ROW EXECUTE FUNCTION note();
	ALTER SCHEMA here RENAME TO there});
run('INSERT INTO a VALUES (DEFAULT, 1000, ' . at(100 * $pairs + 20) . ')');
run("SELECT sjoin.advance_watermark('a', " . at(100 * $pairs + 30) . "), sjoin.advance_watermark('b', " . at(100 * $pairs + 30) . ')');
run("SELECT sjoin.wait_for('there.result')");
run('ALTER SCHEMA there RENAME TO here');
is(run('SELECT count(*) FROM here.result WHERE b_id IS NULL'), '1', 'a padded row');
run('INSERT INTO b VALUES (DEFAULT, 1000, ' . at(100 * $pairs + 25) . ')');
wait_and_verify($node, 'a correction in a renamed schema', 'here.result');
is(run('SELECT count(*) FROM here.result WHERE b_id IS NULL'), '0', 'it is replaced');
$pairs++;
goes_on('with one more', 'here.result');
run('ALTER TABLE here.result SET SCHEMA public; DROP SCHEMA here CASCADE');
is(place('result%'), 'public result one, public result_query1 one', 'moved back');
goes_on('moved back', 'result');

# -- given away: it runs as the new owner, whose rights count
run('ALTER TABLE result OWNER TO two');
is(place('result%'), 'public result two, public result_query1 two', 'the view goes along');
$pairs++;
run("INSERT INTO a VALUES (DEFAULT, $pairs, " . at(100 * $pairs) . "); INSERT INTO b VALUES (DEFAULT, $pairs, " . at(100 * $pairs) . ')');
ok($node->poll_query_until('postgres', q{SELECT state = 'failed' AND last_error = 'permission denied for table a' FROM sjoin.joins}), 'without rights it fails');
run('GRANT SELECT ON a TO two');
ok($node->poll_query_until('postgres', q{SELECT state = 'failed' AND last_error = 'permission denied for table b' FROM sjoin.joins}), 'one right is not enough');
run('GRANT SELECT (id, k, ts) ON b TO two');
goes_on('with rights', 'result');
run('REVOKE SELECT ON a FROM two');
$pairs++;
run("INSERT INTO a VALUES (DEFAULT, $pairs, " . at(100 * $pairs) . "); INSERT INTO b VALUES (DEFAULT, $pairs, " . at(100 * $pairs) . ')');
ok($node->poll_query_until('postgres', q{SELECT state = 'failed' FROM sjoin.joins}), 'they can be taken away');
run('CREATE ROLE readers; GRANT SELECT ON a TO readers; GRANT readers TO two');
goes_on('with the rights of a group', 'result');
my ($ret, $out, $err) = $node->psql('postgres', 'SET ROLE one; CREATE OR REPLACE VIEW result_query1 AS SELECT a.id AS a_id, b.id AS b_id, a.k FROM a JOIN b USING (k)');
like($err, qr/must be owner/, 'the former owner has no hold on the query');
for my $call (q{pause_join('result')}, q{resume_join('result')}, q{refresh_join('result')})
{
	($ret, $out, $err) = $node->psql('postgres', "SET ROLE one; SELECT sjoin.$call");
	like($err, qr/must be owner/, "nor a right to $call");
}
is(run(q{SET ROLE two; SELECT sjoin.pause_join('result'), sjoin.resume_join('result'), sjoin.refresh_join('result') > 0}), 't|t|t', 'the new one has');
goes_on('started over by its owner', 'result');

# a schema that the owner may not use: a statement on the result fails, and goes on with the right
run('CREATE SCHEMA closed; ALTER TABLE result SET SCHEMA closed');
$pairs++;
run("INSERT INTO a VALUES (DEFAULT, $pairs, " . at(100 * $pairs) . "); INSERT INTO b VALUES (DEFAULT, $pairs, " . at(100 * $pairs) . ')');
ok($node->poll_query_until('postgres', q{SELECT state = 'failed' AND last_error = 'permission denied for schema closed' FROM sjoin.joins}), 'a closed schema');
run('GRANT USAGE ON SCHEMA closed TO two');
goes_on('an opened schema', 'closed.result');
run('GRANT CREATE ON SCHEMA closed TO one; REASSIGN OWNED BY two TO one; ALTER TABLE closed.result SET SCHEMA public');
is(place('result%'), 'public result one, public result_query1 one', 'reassigned');
goes_on('reassigned', 'result');

# -- under a superuser's refresh only the owner's rights count
run(q{CREATE TABLE whom (name name); GRANT INSERT ON whom TO one;
	CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.whom VALUES (current_user); RETURN NULL; END $$;
	CREATE TRIGGER tell AFTER TRUNCATE ON result FOR EACH STATEMENT EXECUTE FUNCTION tell();
	SELECT sjoin.refresh_join('result')});
is(run('SELECT name FROM whom'), 'one', 'triggers run as the owner');
goes_on('refreshed by a superuser', 'result');

# -- inputs, their columns and the view under other names
run('ALTER TABLE a RENAME TO a_renamed; ALTER TABLE a_renamed RENAME COLUMN k TO key; ALTER TABLE a_renamed RENAME COLUMN ts TO at');
run('CREATE VIEW a AS SELECT id, key AS k, at AS ts FROM a_renamed');
run('ALTER VIEW result_query1 RENAME TO anything; CREATE SCHEMA views; ALTER VIEW anything SET SCHEMA views');
run('CREATE TABLE more (LIKE b INCLUDING ALL); DROP TABLE more; CREATE SCHEMA inputs; ALTER TABLE b SET SCHEMA inputs; ALTER SCHEMA inputs RENAME TO streams; GRANT USAGE ON SCHEMA streams TO one');
$pairs++;
run("INSERT INTO a_renamed VALUES (DEFAULT, $pairs, " . at(100 * $pairs) . "); INSERT INTO streams.b VALUES (DEFAULT, $pairs, " . at(100 * $pairs) . ')');
wait_and_verify($node, 'renamed inputs');
is(run('SELECT count(*) FROM result'), $pairs, 'rows before and after');
kill_and_start($node);
ok($node->poll_query_until('postgres', q{SELECT sjoin.wait_for('result')}), 'and after a crash');
wait_and_verify($node, 'renamed inputs, after a crash');
run(q{SELECT sjoin.refresh_join('result')});
wait_and_verify($node, 'renamed inputs, started over');
is(run('SELECT count(*) FROM result'), $pairs, 'as many rows');

# -- a result kept without its join is written no more
run('CREATE TABLE kept AS TABLE result');
is(run(q{SELECT sjoin.drop_join('result', keep_result => true)}), 't', 'the join is dropped, the result kept');
is(run('SELECT count(*) FROM result'), run('SELECT count(*) FROM kept'), 'with its rows');
is(run(q{SELECT to_regclass('views.anything') IS NULL}), 't', 'and without the view');
$node->stop;
done_testing();
