# The state has a fixed size: when it is full the join stops with the reason, writers go on, and nothing is lost.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('memory');
$node->append_conf('postgresql.conf', "sjoin.state_memory = '4MB'");
$node->restart;
two_streams($node);
left_join($node);
$node->safe_psql('postgres', 'INSERT INTO a (k, ts) SELECT g, ' . at(0) . ' FROM generate_series(1, 100000) g');
my ($ret, $out, $err) = $node->psql('postgres', q{SET client_min_messages = notice; SELECT sjoin.wait_for('result', timeout => '30 s')});
is($out, 'f', 'wait_for says at once that nothing will come');
like($err, qr/failed|sjoin.joins/, 'and where to look');
like($node->safe_psql('postgres', 'SELECT last_error FROM sjoin.joins'), qr/memory/, 'so does sjoin.joins');
$node->safe_psql('postgres', 'INSERT INTO b (k, ts) SELECT g, ' . at(1) . ' FROM generate_series(1, 1000) g');
is($node->safe_psql('postgres', 'SELECT count(*) FROM b'), '1000', 'writers are not harmed');

$node->append_conf('postgresql.conf', "sjoin.state_memory = '64MB'");
$node->restart;
$node->poll_query_until('postgres', q{SELECT sjoin.wait_for('result', timeout => '60 s')});
wait_and_verify($node, 'with more memory');
is($node->safe_psql('postgres', 'SELECT count(*) FROM result'), '1000', 'all pairs');
$node->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', " . at(60) . "), sjoin.advance_watermark('b', " . at(60) . ')');
wait_and_verify($node, 'end');
is($node->safe_psql('postgres', 'SELECT count(*), count(b_id) FROM result'), '100000|1000', 'pairs and padded rows');

# A state that is more than half full: what updates leave behind is won back in time.
$node->safe_psql('postgres', q{SELECT sjoin.drop_join('result')});
$node->append_conf('postgresql.conf', "sjoin.state_memory = '16MB'");
$node->restart;
$node->safe_psql('postgres', q{
	CREATE TABLE o (id int, k int, ts timestamptz, v text);
	SELECT sjoin.create_stream('o', 'ts', watermark_delay => '1 h');
	SELECT sjoin.create_join('updated', 'SELECT o.id, o.v, b.id AS b_id FROM o LEFT JOIN b ON o.k = b.k AND b.ts BETWEEN o.ts AND o.ts + interval ''5 min''');
	SELECT sjoin.wait_for('updated')});
$node->safe_psql('postgres', "INSERT INTO o SELECT g, g + 10000000, " . at(0) . ", repeat('x', 200) FROM generate_series(1, 28000) g");
wait_and_verify($node, 'filled', 'updated');
for my $round (1 .. 2)
{
	$node->safe_psql('postgres', join '', map { "UPDATE o SET v = repeat('$round', 200 + id % 10) WHERE id BETWEEN " . ($_ * 500 + 1) . ' AND ' . ($_ * 500 + 500) . ';' } 0 .. 55);
	wait_and_verify($node, "updated $round", 'updated');
}
$node->safe_psql('postgres', 'DELETE FROM o WHERE id % 2 = 0; UPDATE o SET v = NULL WHERE id % 3 = 0');
wait_and_verify($node, 'thinned out', 'updated');
$node->stop('immediate');
$node->start;
$node->safe_psql('postgres', 'UPDATE o SET k = k + 1');
wait_and_verify($node, 'after a crash', 'updated');
$node->stop;
done_testing();
