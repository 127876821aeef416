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
$node->stop;
done_testing();
