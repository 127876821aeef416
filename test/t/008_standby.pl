# A standby shows the result and joins nothing; promoted, it goes on where the primary was.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $primary = sjoin_node('primary', allows_streaming => 1);
two_streams($primary);
left_join($primary, "allowed_lateness => '0 s'");
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

$primary->safe_psql('postgres', 'INSERT INTO a (k, ts) VALUES (1, ' . at(10) . '), (2, ' . at(10) . '), (3, ' . at(10) . ')');
$primary->safe_psql('postgres', 'INSERT INTO b (k, ts) VALUES (1, ' . at(10) . ')');
$primary->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', " . at(13) . "), sjoin.advance_watermark('b', " . at(13) . ')');
wait_and_verify($primary, 'primary');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
is($standby->safe_psql('postgres', 'SELECT k, b_id IS NULL FROM result'), '1|f', 'the result on the standby');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM sjoin.stat_workers'), '0', 'no worker on the standby');

$primary->stop('immediate');
$standby->promote;
await_worker($standby);
$standby->safe_psql('postgres', 'INSERT INTO b (k, ts) VALUES (2, ' . at(15) . ')');
wait_and_verify($standby, 'promoted: partner');
$standby->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', " . at(16) . "), sjoin.advance_watermark('b', " . at(16) . ')');
wait_and_verify($standby, 'promoted: deadline');
is($standby->safe_psql('postgres', 'SELECT k, b_id IS NULL FROM result ORDER BY k'), "1|f\n2|f\n3|t", 'joined, joined, padded');
$standby->stop;
done_testing();
