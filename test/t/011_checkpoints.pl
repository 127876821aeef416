# Checkpoints, emptied segments and rebuilds: the log is rotated after each megabyte, so all of it happens within seconds.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('checkpoints');
$node->append_conf('postgresql.conf', "sjoin.log_segment_size = '1MB'\nsjoin.state_memory = '128MB'");
$node->restart;
two_streams($node);
left_join($node, "allowed_lateness => '3 s'");

my $time = 0;

# Rows around now, some seconds out of order, most of them with a partner; then event time moves on
sub load
{
	my ($transactions) = @_;
	for (1 .. $transactions)
	{
		$node->safe_psql('postgres', "
			INSERT INTO a (k, ts) SELECT g % 500, " . at($time) . " + (g % 7 - 3) * interval '1 s' FROM generate_series(1, 2000) g;
			INSERT INTO b (k, ts) SELECT g % 600, " . at($time) . " + (g % 9 - 3) * interval '1 s' FROM generate_series(1, 2000) g;");
		$time += 4;
	}
}

sub log_bytes
{
	return $node->safe_psql('postgres',
		q{SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE relnamespace = 'sjoin'::regnamespace AND relname ~ '^log_[0-9]$'});
}

sub base
{
	return $node->safe_psql('postgres', 'SELECT base_tick FROM sjoin.position WHERE join_id > 0 ORDER BY serial DESC LIMIT 1');
}

# Another default makes all joins carry their state forward.
sub carried_forward
{
	my ($name, $max_future) = @_;
	my $its_base = "SELECT max(base_tick) FROM sjoin.position WHERE join_id = (SELECT join_id FROM sjoin.join_def WHERE result = '$name'::regclass)";
	my $before = $node->safe_psql('postgres', $its_base);
	$node->safe_psql('postgres', "ALTER SYSTEM SET sjoin.max_future = '$max_future'");
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT ($its_base) > $before"), "$name is carried forward for another setting");
	return;
}

load(20);
wait_and_verify($node, 'before a restart');
my $base = base();
cmp_ok($base, '>', 1, 'the state has been carried forward');

for my $how ('clean restart', 'crash', 'worker killed', 'crash')
{
	if ($how eq 'clean restart')
	{
		$node->restart;
	}
	elsif ($how eq 'crash')
	{
		kill_and_start($node);
	}
	else
	{
		my $pid = worker_pid($node);
		kill 'KILL', $pid;
		ok(await_server($node), 'the server is back');
		ok(await_worker($node, $pid), 'another worker');
	}
	load(8);
	wait_and_verify($node, "after: $how");
}
cmp_ok(base(), '>', $base, 'and again');
ok($node->poll_query_until('postgres',
		q{SELECT sum(pg_relation_size(oid)) < 8 * 1024 * 1024 FROM pg_class WHERE relnamespace = 'sjoin'::regnamespace AND relname ~ '^log_[0-9]$'}),
	'segments are emptied');

# A batch that cannot be written is kept; a change of settings meanwhile must not store its state with the position before it.
my $lock = $node->background_psql('postgres');
$lock->query_safe('BEGIN; LOCK TABLE result IN ACCESS EXCLUSIVE MODE');
load(1);
$node->safe_psql('postgres', "ALTER SYSTEM SET sjoin.max_future = '2min'");
$node->reload;
ok($node->poll_query_until('postgres', "SELECT errors > 0 FROM sjoin.stat_joins"), 'the batch waits for the table');
$lock->query_safe('COMMIT');
$lock->quit;
wait_and_verify($node, 'after the lock');
kill_and_start($node);
load(2);
wait_and_verify($node, 'after the lock and a crash');

# What makes the worker compile the join anew must not change its settings: rows ahead of the clock move the watermark up to max_future.
$node->safe_psql('postgres', q{
	CREATE TABLE c (k int, ts timestamptz);
	CREATE TABLE d (k int, ts timestamptz);
	SELECT sjoin.create_stream('c', 'ts', watermark_delay => '0 s', max_future => '1 hour');
	SELECT sjoin.create_stream('d', 'ts', watermark_delay => '0 s', max_future => '1 hour');
	SELECT sjoin.create_join('ahead', 'SELECT c.k FROM c JOIN d ON c.k = d.k AND d.ts BETWEEN c.ts AND c.ts + interval ''5 s''')});
wait_and_verify($node, 'started', 'ahead');
$node->safe_psql('postgres', 'CREATE FUNCTION anything() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$');
$node->safe_psql('postgres', "INSERT INTO c VALUES (1, now() + interval '30 min'); INSERT INTO d VALUES (1, now() + interval '30 min')");
wait_and_verify($node, 'compiled anew', 'ahead');
is($node->safe_psql('postgres', "SELECT watermark > now() + interval '20 min' FROM sjoin.joins WHERE join_name = 'ahead'"),
	't', 'the watermark has moved');
kill_and_start($node);
$node->safe_psql('postgres', "INSERT INTO d VALUES (1, now() + interval '30 min')");
wait_and_verify($node, 'rebuilt with the same settings', 'ahead');

# A row that has been carried forward is found again when it changes, in the partition that it is in.
$node->safe_psql('postgres', q{
	CREATE TABLE parted (id int, k int, ts timestamptz) PARTITION BY LIST (k);
	CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
	CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2);
	CREATE TABLE plain (id int, k int, ts timestamptz);
	SELECT sjoin.create_stream('parted', 'ts', watermark_delay => '0 s');
	SELECT sjoin.create_stream('plain', 'ts', watermark_delay => '0 s');
	SELECT sjoin.create_join('parts', 'SELECT parted.id AS l, plain.id AS r FROM parted LEFT JOIN plain
		ON parted.k = plain.k AND plain.ts BETWEEN parted.ts AND parted.ts + interval ''5 s''', allowed_lateness => '1 hour')});
$node->safe_psql('postgres', sprintf q{
	INSERT INTO parted SELECT g, 1 + g %% 2, %1$s FROM generate_series(1, 6) g;
	INSERT INTO plain SELECT g, 1 + g %% 2, %1$s FROM generate_series(1, 2) g;
	INSERT INTO plain SELECT g, 1 + g %% 2, %1$s FROM generate_series(11, 12) g;
	SELECT sjoin.wait_for('parts')}, at(0));
carried_forward('parts', '3min');
kill_and_start($node);
$node->safe_psql('postgres', q{
	DELETE FROM parted WHERE id = 1;
	UPDATE parted SET id = 20 WHERE id = 2;
	DELETE FROM plain WHERE id IN (1, 11);
	UPDATE plain SET id = 22 WHERE id = 12});
wait_and_verify($node, 'rows of partitions changed after a crash', 'parts');
$node->safe_psql('postgres', 'TRUNCATE parted_2');
wait_and_verify($node, 'a partition emptied', 'parts');
is($node->safe_psql('postgres', "SELECT string_agg(l || ' ' || coalesce(r::text, '-'), ', ' ORDER BY l, r) FROM parts"),
	'4 2, 4 22, 6 2, 6 22, 20 2, 20 22', 'the result has what is left');

# A row that has been carried forward keeps the deadline that it came with, and the join the settings that it has got.
$node->safe_psql('postgres', sprintf q{
	CREATE TABLE timed (id int, k int, ts timestamptz);
	SELECT sjoin.create_stream('timed', 'ts', watermark_delay => '0 s');
	SELECT sjoin.create_join('times', 'SELECT timed.id AS l, plain.id AS r FROM timed LEFT JOIN plain
		ON timed.k = plain.k AND plain.ts BETWEEN timed.ts AND timed.ts + interval ''1 min''', timeout => '10 s');
	INSERT INTO timed VALUES (1, 1, %1$s);
	SELECT sjoin.alter_join('times', timeout => '30 s', allowed_lateness => '2 min'), sjoin.alter_stream('timed', watermark_delay => '5 s');
	INSERT INTO timed VALUES (2, 1, %1$s)}, at(1000));
wait_and_verify($node, 'altered', 'times');
carried_forward('times', '4min');
kill_and_start($node);
$node->safe_psql('postgres', sprintf q{
	SELECT sjoin.advance_watermark('plain', %1$s), sjoin.advance_watermark('timed', %1$s)}, at(1011));
wait_and_verify($node, 'the first deadline has passed', 'times');
is($node->safe_psql('postgres', q{SELECT string_agg(l::text, ' ' ORDER BY l) FROM times}), '1', 'and only that');
$node->safe_psql('postgres', sprintf q{INSERT INTO timed VALUES (3, 1, %s); SELECT sjoin.advance_watermark('plain', %s)}, at(1040), at(2000));
wait_and_verify($node, 'the delay is the altered one', 'times');
is($node->safe_psql('postgres', q{SELECT string_agg(l::text, ' ' ORDER BY l) || to_char(sjoin.watermark('times'), ' MI:SS') FROM times}),
	'1 2 17:15', 'so is the second deadline');

# A join that stopped while the log went on does not start from what is left of it.
$node->safe_psql('postgres', q{
	SELECT sjoin.create_join('stopped', 'SELECT a.id FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''');
	SELECT sjoin.wait_for('stopped')});
my $definition = $node->safe_psql('postgres', "SELECT pg_get_viewdef('stopped_query')");
$node->safe_psql('postgres', 'DROP VIEW stopped_query');
ok($node->poll_query_until('postgres', "SELECT state = 'stopped' FROM sjoin.joins WHERE join_name = 'stopped'"), 'stopped');
load(12);
wait_and_verify($node, 'the other one goes on');
$node->restart;
load(1);
wait_and_verify($node, 'also after a restart');
is($node->safe_psql('postgres', "SELECT state FROM sjoin.joins WHERE join_name = 'stopped'"), 'stopped', 'and stopped it stays');

done_testing();
