# Without shared_preload_libraries: an error that names the remedy, and writers that go on writing.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('plain', preload => 0);
my ($ret, $out, $err) = $node->psql('postgres', 'CREATE EXTENSION sjoin');
if ($ret == 0)
{
	$node->safe_psql('postgres', 'CREATE TABLE a (id int, k int, ts timestamptz)');
	($ret, $out, $err) = $node->psql('postgres', "SELECT sjoin.create_stream('a', 'ts')");
}
isnt($ret, 0, 'refused');
like($err, qr/shared_preload_libraries/, 'the remedy is named');
$node->stop;

# Taken out of shared_preload_libraries later: the tables can be written all the same.
$node = sjoin_node('no_longer');
two_streams($node);
left_join($node);
$node->safe_psql('postgres', 'INSERT INTO a (k, ts) VALUES (1, ' . at(0) . ')');
wait_and_verify($node, 'preloaded');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
($ret, $out, $err) = $node->psql('postgres', 'INSERT INTO b (k, ts) VALUES (1, ' . at(1) . ')');
is($ret, 0, 'a writer is not harmed') or diag($err);
($ret, $out, $err) = $node->psql('postgres', "SELECT sjoin.wait_for('result')");
like($err, qr/shared_preload_libraries/, 'wait_for names the remedy');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'sjoin'");
$node->restart;
wait_and_verify($node, 'preloaded again');
is($node->safe_psql('postgres', 'SELECT a_id, b_id FROM result'), '1|1', 'what was written meanwhile is joined');
$node->stop;
done_testing();
