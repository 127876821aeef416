# SJ-057: writers that update the same rows in every isolation level, with retries; deadlocks and rollbacks among them.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('updaters');
two_streams($node);
$node->safe_psql('postgres', q{
	SELECT sjoin.drop_stream('a'), sjoin.drop_stream('b');
	SELECT sjoin.create_stream('a', 'ts', watermark_delay => '1 hour'), sjoin.create_stream('b', 'ts', watermark_delay => '1 hour')});
left_join($node);
$node->safe_psql('postgres', q{
	SELECT sjoin.create_join('changes', 'SELECT a.id AS a_id, b.id AS b_id, a.k FROM a LEFT JOIN b
		ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''', output_mode => 'changelog')});
$node->safe_psql('postgres', 'SELECT sjoin.wait_for()');
$node->safe_psql('postgres', 'INSERT INTO a (k, ts) SELECT g, ' . at(0) . ' FROM generate_series(1, 100) g; INSERT INTO b (k, ts) SELECT g, ' . at(1) . ' FROM generate_series(1, 100) g');
my $script = $node->basedir . '/update.sql';
append_to_file($script, q{
\set i random(1, 100)
\set j random(1, 100)
\set k random(1, 20)
\set end random(0, 9)
BEGIN;
UPDATE a SET k = :k WHERE id = :i;
UPDATE b SET k = :k, ts = ts + ((:j % 5) - 2) * interval '1 s' WHERE id = :j;
DELETE FROM b WHERE id > 100 AND id % 7 = :i % 7;
INSERT INTO b (k, ts) VALUES (:k, timestamptz '2024-01-01 10:00:01+00');
\if :end
COMMIT;
\else
ROLLBACK;
\endif
});
for my $level ('read\ committed', 'repeatable\ read', 'serializable')
{
	local $ENV{PGOPTIONS} = "-c default_transaction_isolation=$level -c deadlock_timeout=10ms";
	my ($out, $err) = ('', '');
	ok(IPC::Run::run([ 'pgbench', '-n', '-c', '4', '-t', '200', '--max-tries=1000', '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ],
			'>', \$out, '2>', \$err), "$level: no client fails") or diag($err);
	wait_and_verify($node, $level);
	wait_and_verify($node, "$level, changelog", 'changes');
}
is( $node->safe_psql('postgres', q{SELECT count(*) FROM (
		(SELECT a_id, b_id, k FROM result EXCEPT ALL SELECT a_id, b_id, k FROM changes WHERE sjoin_op::text IN ('+I', '+U'))) x}),
	'0', 'every row of the result was once in the changelog');
$node->safe_psql('postgres', q{SELECT sjoin.advance_watermark('a', '2025-01-01'), sjoin.advance_watermark('b', '2025-01-01')});
wait_and_verify($node, 'end');
is( $node->safe_psql('postgres', 'SELECT sum(state_rows) FROM sjoin.stat_joins'), '0', 'the state is empty');
$node->stop;
done_testing();
