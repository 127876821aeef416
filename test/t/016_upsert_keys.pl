# Upsert keys across crashes and checkpoints: which versions count is carried forward and found out again.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('upsert_keys');
$node->append_conf('postgresql.conf', "sjoin.log_segment_size = '1MB'\nsjoin.state_memory = '128MB'");
$node->restart;
$node->safe_psql('postgres', q{
	CREATE TABLE a (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, o int, k int, ts timestamptz);
	CREATE TABLE b (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, k int, ts timestamptz);
	SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s', upsert_key => '{o}');
	SELECT sjoin.create_stream('b', 'ts', watermark_delay => '0 s', upsert_key => '{k}');
});
left_join($node, "allowed_lateness => '8 s'");

my $time = 0;

# Versions around now, some seconds out of order, a few of them changed or deleted again; then event time moves on
sub load
{
	my ($transactions) = @_;
	for (1 .. $transactions)
	{
		$node->safe_psql('postgres', "
			INSERT INTO a (o, k, ts) SELECT nullif(g % 700, 5), g % 500, " . at($time) . " + (g % 7 - 3) * interval '1 s' FROM generate_series(1, 2000) g;
			INSERT INTO b (k, ts) SELECT g % 600, " . at($time) . " + (g % 9 - 3) * interval '1 s' FROM generate_series(1, 2000) g;
			UPDATE a SET k = k + 1, ts = ts - interval '1 s' WHERE id % 50 = 7 AND ts > " . at($time) . " - interval '5 s';
			DELETE FROM a WHERE id % 60 = 8 AND ts > " . at($time) . " - interval '5 s';
			DELETE FROM b WHERE id % 70 = 9 AND ts > " . at($time) . " - interval '5 s';");
		$time += 4;
	}
}

load(40);
wait_and_verify($node, 'before a restart');
cmp_ok($node->safe_psql('postgres', 'SELECT base_tick FROM sjoin.position WHERE join_id > 0 ORDER BY serial DESC LIMIT 1'),
	'>', 1, 'the state has been carried forward');

for my $how ('clean restart', 'crash', 'worker killed', 'worker terminated', 'crash')
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
		kill $how eq 'worker killed' ? 'KILL' : 'TERM', $pid;
		ok(await_server($node), 'the server is back');
		ok(await_worker($node, $pid), 'another worker');
	}
	load(3);
	wait_and_verify($node, "after: $how");
}

# What was deleted before the crash goes on replacing after it.
$node->safe_psql('postgres', "INSERT INTO b (k, ts) VALUES (-1, " . at($time) . ")");
$node->safe_psql('postgres', "INSERT INTO a (o, k, ts) VALUES (-1, -1, " . at($time) . ")");
$node->safe_psql('postgres', "DELETE FROM a WHERE o = -1");
wait_and_verify($node, 'deleted');
kill_and_start($node);
$node->safe_psql('postgres', "INSERT INTO a (o, k, ts) VALUES (-1, -1, " . at($time) . " - interval '1 s')");
wait_and_verify($node, 'an older version after the crash');
is($node->safe_psql('postgres', 'SELECT count(*) FROM result WHERE k = -1'), '0', 'it is replaced by what is gone');

$node->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', " . at($time + 600) . "), sjoin.advance_watermark('b', " . at($time + 600) . ")");
wait_and_verify($node, 'in the end');
is($node->safe_psql('postgres', 'SELECT state_rows FROM sjoin.stat_joins'), '0', 'the state is empty');
is( $node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT FROM result JOIN a ON a.id = a_id WHERE o IS NOT NULL GROUP BY o, b_id, ts HAVING count(*) > 1) x'),
	'0', 'of versions with the same event time one counts');

$node->stop;
done_testing();
