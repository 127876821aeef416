# Clean restarts of the server and ends of the worker: the join goes on where it was.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('restart');
two_streams($node);
left_join($node, "allowed_lateness => '0 s'");

sub advance
{
	my ($seconds) = @_;
	$node->safe_psql('postgres',
		"SELECT sjoin.advance_watermark('a', " . at($seconds) . "), sjoin.advance_watermark('b', " . at($seconds) . ')');
}

my $time = 0;
for my $how ('clean restart', 'worker terminated', 'worker terminated twice', 'worker cancelled')
{
	$node->safe_psql('postgres', "INSERT INTO a (k, ts) VALUES (1, " . at($time + 1) . '), (2, ' . at($time + 1) . '), (3, ' . at($time + 1) . ')');
	$node->safe_psql('postgres', "INSERT INTO b (k, ts) VALUES (1, " . at($time + 2) . ')');
	advance($time + 3);
	wait_and_verify($node, "before: $how");
	my $pid = worker_pid($node);
	if ($how eq 'clean restart')
	{
		$node->restart;
	}
	elsif ($how eq 'worker cancelled')
	{
		$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	}
	else
	{
		$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		ok(await_worker($node, $pid), 'another worker');
		$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . worker_pid($node) . ')') if $how =~ /twice/;
	}
	$node->safe_psql('postgres', "INSERT INTO b (k, ts) VALUES (2, " . at($time + 6) . ')');
	wait_and_verify($node, "partner after: $how");
	advance($time + 7);
	wait_and_verify($node, "deadline after: $how");
	is( $node->safe_psql('postgres',
			'SELECT k, b_id IS NULL FROM result WHERE a_id > (SELECT max(id) - 3 FROM a) ORDER BY k'),
		"1|f\n2|f\n3|t", "result after: $how");
	$time += 10;
}

# Rows written while the worker is away are there when it comes back.
my $load = writer($node, 300);
for (1 .. 5)
{
	my $pid = worker_pid($node);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") if $pid =~ /^\d+$/;
	await_worker($node, $pid || 0);
}
$load->finish;
wait_and_verify($node, 'load with dying workers');
is($node->safe_psql('postgres', 'SELECT watermark IS NOT NULL FROM sjoin.joins'), 't', 'the watermark survived');

# A worker that nobody needs ends.
$node->safe_psql('postgres', "SELECT sjoin.drop_join('result')");
ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM sjoin.stat_workers WHERE datname = current_database()'),
	'no worker without a join');
# SJ-023: pairs, rows that wait and the watermark survive a clean restart.
$node->safe_psql('postgres', q{
	CREATE SCHEMA sj023;
	CREATE TABLE sj023.a (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, k int, ts timestamptz);
	CREATE TABLE sj023.b (LIKE sj023.a INCLUDING ALL);
	SELECT sjoin.create_stream('sj023.a', 'ts', watermark_delay => '0 s'), sjoin.create_stream('sj023.b', 'ts', watermark_delay => '0 s');
	SELECT sjoin.create_join('sj023.result', 'SELECT a.id AS a_id, b.id AS b_id, a.k FROM sj023.a LEFT JOIN sj023.b
		ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''10 min''')});
$node->safe_psql('postgres', "SELECT sjoin.wait_for('sj023.result')");
$node->safe_psql('postgres', 'INSERT INTO sj023.a (k, ts) SELECT g, ' . at(0) . " + g * interval '1 s' FROM generate_series(1, 50) g");
$node->safe_psql('postgres', 'INSERT INTO sj023.b (k, ts) SELECT g, ' . at(60) . " + g * interval '1 s' FROM generate_series(1, 25) g");
wait_and_verify($node, 'SJ-023 before', 'sj023.result');
my $watermark = $node->safe_psql('postgres', "SELECT sjoin.watermark('sj023.result')");
is($watermark, $node->safe_psql('postgres', 'SELECT max(ts) FROM sj023.a'), 'SJ-023 the watermark before');
$node->stop('fast');
$node->start;
wait_and_verify($node, 'SJ-023 after the restart', 'sj023.result');
is($node->safe_psql('postgres', "SELECT sjoin.watermark('sj023.result')"), $watermark, 'SJ-023 the watermark after the restart');
$node->safe_psql('postgres', 'INSERT INTO sj023.b (k, ts) SELECT g, ' . at(120) . " + g * interval '1 s' FROM generate_series(26, 30) g");
wait_and_verify($node, 'SJ-023 partners after the restart', 'sj023.result');
is($node->safe_psql('postgres', 'SELECT count(*), count(b_id) FROM sj023.result'), '30|30', 'SJ-023 nothing is padded too early');
$node->safe_psql('postgres', "SELECT sjoin.advance_watermark('sj023.$_', " . at(3600) . ')') for 'a', 'b';
wait_and_verify($node, 'SJ-023 at the end', 'sj023.result');
is( $node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT a_id), count(b_id), max(k) FILTER (WHERE b_id IS NOT NULL) FROM sj023.result'),
	'50|50|30|30', 'SJ-023 30 pairs, 20 padded rows, none twice');

$node->stop;
done_testing();
