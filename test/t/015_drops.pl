# Objects are dropped, by people with and without rights, half and whole, while joins run.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('drops');
two_streams($node);
left_join($node);

# SJ-077: a user with no right on anything of sjoin's drops what is his, here and where the extension is not.
$node->safe_psql('postgres', q{CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE postgres TO plain; REVOKE ALL ON SCHEMA sjoin FROM PUBLIC});
$node->safe_psql('postgres', 'CREATE DATABASE without OWNER plain');
for my $database ('postgres', 'without')
{
	my ($ret, $out, $err) = $node->psql('postgres' eq $database ? 'postgres' : $database, q{
		SET SESSION AUTHORIZATION plain;
		CREATE SCHEMA mine;
		CREATE TABLE mine.one (id int PRIMARY KEY, k int); CREATE TABLE mine.two (id int REFERENCES mine.one);
		CREATE VIEW mine.three AS SELECT * FROM mine.one; CREATE FUNCTION mine.four() RETURNS int LANGUAGE sql AS 'SELECT 4';
		CREATE TEMP TABLE five (id int); DROP TABLE five;
		DROP TABLE mine.two; TRUNCATE mine.one; ALTER TABLE mine.one DROP COLUMN k CASCADE;
		DROP SCHEMA mine CASCADE;
		CREATE SCHEMA mine; CREATE TABLE mine.one (id int);
		DROP OWNED BY plain}, on_error_stop => 1);
	is($ret, 0, "SJ-077 unrelated drops in $database") or diag($err);
}
$node->safe_psql('postgres', 'GRANT USAGE ON SCHEMA sjoin TO PUBLIC');

# SJ-078: without CASCADE the error names what hangs on the table; rolled back, everything works as before.
my ($ret, $out, $err) = $node->psql('postgres', 'DROP TABLE a');
isnt($ret, 0, 'SJ-078 DROP TABLE without CASCADE');
like($err, qr/result/, 'SJ-078 names the join');
my $k = 0;

sub still_joins
{
	my ($what) = @_;

	$k++;
	$node->safe_psql('postgres', "INSERT INTO a (k, ts) VALUES ($k, " . at($k) . "); INSERT INTO b (k, ts) VALUES ($k, " . at($k) . ')');
	wait_and_verify($node, "SJ-078 $what");
	is($node->safe_psql('postgres', "SELECT count(*) FROM result WHERE k = $k"), '1', "SJ-078 $what: a pair");
}

still_joins('at first');
for my $command ('DROP TABLE a CASCADE', 'DROP TABLE result CASCADE', 'DROP SCHEMA public CASCADE', q{SELECT sjoin.drop_join('result')},
	'DROP VIEW result_query CASCADE', 'DROP EXTENSION sjoin CASCADE', 'DROP TABLE b CASCADE; CREATE TABLE b (id bigint)')
{
	$node->safe_psql('postgres', "SET client_min_messages = error; BEGIN; INSERT INTO a (k, ts) VALUES (-1, " . at(0) . "); $command; ROLLBACK");
	still_joins("rolled back: $command");
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM sjoin.streams'), '2', 'SJ-078 both streams are there');

# A subtransaction that has written to the table fails, the next one writes, and the table goes in the same transaction.
sub doomed
{
	my ($end) = @_;

	return 'SET client_min_messages = error; BEGIN; DO $$ BEGIN INSERT INTO a (k, ts) VALUES (-2, ' . at(0) . q{); RAISE EXCEPTION 'fails';
		EXCEPTION WHEN raise_exception THEN NULL; END $$; INSERT INTO a (k, ts) VALUES (-3, } . at(0) .
	  "); SAVEPOINT s; INSERT INTO a (k, ts) VALUES (-4, " . at(0) . "); DROP TABLE a CASCADE; $end";
}
$node->safe_psql('postgres', doomed('ROLLBACK TO s; COMMIT'));
wait_and_verify($node, 'SJ-078 dropped, and not');
is($node->safe_psql('postgres', q{SELECT count(*) FROM a WHERE k < 0}), '1', 'SJ-078 the row before the savepoint');
still_joins('after that');
my $log = -s $node->logfile;
my $load = writer($node, 300);
$node->safe_psql('postgres', doomed('COMMIT'));
$load->kill_kill;
ok($node->poll_query_until('postgres', q{SELECT bool_and(state = 'stopped') FROM sjoin.joins}), 'SJ-078 dropped with CASCADE: the join stops');
is($node->safe_psql('postgres', 'SELECT count(*) > 0 FROM result'), 't', 'SJ-078 the result stays');
$node->safe_psql('postgres', 'DROP TABLE result; DROP TABLE b CASCADE');
is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM sjoin.joins), (SELECT count(*) FROM sjoin.streams)'), '0|0', 'SJ-078 nothing is left');

# Everything at once, while rows are written and the worker is in the middle of them.
for my $command ('DROP TABLE result CASCADE', 'DROP SCHEMA public CASCADE; CREATE SCHEMA public', 'DROP TABLE a, b CASCADE; DROP TABLE result')
{
	two_streams($node);
	left_join($node);
	$node->safe_psql('postgres', "SELECT sjoin.create_stream('$_', 'ts', if_not_exists => true)") for 'a', 'b';
	my $busy = writer($node, 100000);
	ok($node->poll_query_until('postgres', 'SELECT count(*) > 100 FROM result'), "SJ-078 rows come: $command");
	# writers lock the tables in another order: the one that waited longer gives up
	my ($failed, $error) = (1, 'deadlock detected');
	(($failed, undef, $error) = $node->psql('postgres', "SET client_min_messages = error; $command", on_error_stop => 1)) while $failed && $error =~ /deadlock detected/;
	is($error, '', "SJ-078 dropped: $command");
	$busy->kill_kill;
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM sjoin.joins WHERE state <> 'stopped'}), "SJ-078 gone: $command");
	$node->safe_psql('postgres', 'SET client_min_messages = error; DROP TABLE IF EXISTS a, b, result CASCADE; GRANT ALL ON SCHEMA public TO PUBLIC');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM sjoin.joins'), '0', "SJ-078 nothing is left: $command");
}
my $logged = slurp_file($node->logfile, $log);
unlike($logged, qr/was terminated by signal|TRAP|PANIC/, 'SJ-078 no process crashed');
my $lines = () = $logged =~ /sjoin worker/g;
cmp_ok($lines, '<', 500, 'SJ-078 the log is not flooded');

# SJ-077: DROP EXTENSION with an event trigger of the user's that writes; then again in the same session.
$node->safe_psql('postgres', q{
	CREATE TABLE dropped (object text);
	CREATE FUNCTION note_drop() RETURNS event_trigger LANGUAGE plpgsql AS $$
	BEGIN INSERT INTO public.dropped SELECT object_identity FROM pg_event_trigger_dropped_objects(); END $$;
	CREATE EVENT TRIGGER note_drop ON sql_drop EXECUTE FUNCTION note_drop()});
two_streams($node);
left_join($node);
$node->safe_psql('postgres', 'SET client_min_messages = error; DROP EXTENSION sjoin CASCADE; CREATE EXTENSION sjoin;
	DROP TABLE a, b, result CASCADE; DROP EVENT TRIGGER note_drop');
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM dropped'), '>', 10, 'SJ-077 an event trigger that writes');
two_streams($node);
left_join($node);
still_joins('a new extension');
$node->stop;
done_testing();
