# Many writers at once, with savepoints, rollbacks and a worker that is stopped now and then: nothing lost, nothing twice.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('load');
two_streams($node);
$node->safe_psql('postgres', q{
	SELECT sjoin.drop_stream('a'), sjoin.drop_stream('b');
	SELECT sjoin.create_stream('a', 'ts', watermark_delay => '1 hour');
	SELECT sjoin.create_stream('b', 'ts', watermark_delay => '1 hour')});
left_join($node);
$node->safe_psql('postgres', q{
	SELECT sjoin.create_join('appended', 'SELECT a.id AS a_id, b.id AS b_id FROM a JOIN b
		ON a.k = b.k AND b.ts BETWEEN a.ts - interval ''2 s'' AND a.ts + interval ''2 s''', output_mode => 'append');
	SELECT sjoin.wait_for()});

my $script = $node->basedir . '/load.sql';
append_to_file($script, q{
\set k random(1, 2000)
\set what random(1, 10)
\set second random(0, 20)
BEGIN;
INSERT INTO a (k, ts) VALUES (:k, timestamptz '2024-01-01 10:00+00' + :second * interval '1 s');
SAVEPOINT one;
INSERT INTO b (k, ts) SELECT :k + g, timestamptz '2024-01-01 10:00+00' + (:second + g) * interval '1 s' FROM generate_series(-1, 3) g;
\if :what = 1
ROLLBACK TO one;
\endif
\if :what = 2
ROLLBACK;
BEGIN;
\endif
\if :what > 7
SAVEPOINT two;
INSERT INTO a (k, ts) VALUES (:k, timestamptz '2024-01-01 10:00+00' + :second * interval '1 s');
RELEASE two;
\endif
COMMIT;
});
my ($out, $err) = ('', '');
my $load = IPC::Run::start(
	[ 'pgbench', '-n', '-c', '16', '-j', '2', '-t', '400', '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
	'>', \$out, '2>', \$err);
for my $goal (1000, 2500, 4000)
{
	$node->poll_query_until('postgres', "SELECT count(*) > $goal FROM a");
	my $pid = worker_pid($node);
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") if $pid;
	await_worker($node, $pid);
}
$load->finish;
unlike($err, qr/ERROR|aborted/, 'no writer failed') or diag($err);
wait_and_verify($node, 'left join');
wait_and_verify($node, 'append', 'appended');
is( $node->safe_psql('postgres', q{SELECT max(sjoin_seq) - min(sjoin_seq) + 1 = count(*) FROM appended}),
	't', 'numbers without gaps');
$node->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', '2025-01-01'), sjoin.advance_watermark('b', '2025-01-01')");
wait_and_verify($node, 'left join, end');
is($node->safe_psql('postgres', q{SELECT count(*) FROM result r FULL JOIN (SELECT a.id AS a_id, b.id AS b_id FROM a LEFT JOIN b
		ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval '5 s') q ON q.a_id = r.a_id AND q.b_id IS NOT DISTINCT FROM r.b_id
	WHERE q.a_id IS NULL OR r.a_id IS NULL}), '0', 'the same as the query');
is($node->safe_psql('postgres', 'SELECT sum(state_rows) FROM sjoin.stat_joins'), '0', 'the state is empty');
is($node->safe_psql('postgres', 'SELECT count(*) FROM sjoin.late_rows'), '0', 'no row was late');
$node->stop;
done_testing();
