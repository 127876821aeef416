# FOR ALL TABLES: a subscriber that knows nothing of sjoin goes on replicating, the result included.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $publisher = sjoin_node('publisher', allows_streaming => 'logical');
my $subscriber = sjoin_node('subscriber', preload => 0);

# The publication is older than the streams.
$publisher->safe_psql('postgres', 'CREATE PUBLICATION everything FOR ALL TABLES');
two_streams($publisher);
left_join($publisher);
my $columns = $publisher->safe_psql('postgres', q{
	SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
	  FROM pg_attribute WHERE attrelid = 'result'::regclass AND attnum > 0 AND NOT attisdropped});
$subscriber->safe_psql('postgres', qq{
	CREATE TABLE a (id bigint PRIMARY KEY, k int, ts timestamptz);
	CREATE TABLE b (id bigint PRIMARY KEY, k int, ts timestamptz);
	CREATE TABLE result ($columns)});
$subscriber->safe_psql('postgres', 'ALTER TABLE result ADD PRIMARY KEY (sjoin_id)');
is( $publisher->safe_psql('postgres', q{SELECT count(*) FROM pg_publication_tables WHERE schemaname = 'sjoin'}),
	'0', 'nothing of sjoin is published');

$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION s CONNECTION '" . $publisher->connstr . " dbname=postgres' PUBLICATION everything");
$subscriber->wait_for_subscription_sync($publisher, 's');

$publisher->safe_psql('postgres', 'INSERT INTO a (k, ts) SELECT g, ' . at(0) . ' FROM generate_series(1, 100) g');
$publisher->safe_psql('postgres', 'INSERT INTO b (k, ts) SELECT g, ' . at(1) . ' FROM generate_series(1, 50) g');
$publisher->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', " . at(10) . "), sjoin.advance_watermark('b', " . at(10) . ')');
wait_and_verify($publisher, 'publisher');
# padded rows are taken back by partners within the allowed lateness
$publisher->safe_psql('postgres', 'INSERT INTO b (k, ts) SELECT g, ' . at(5) . ' FROM generate_series(51, 60) g');
wait_and_verify($publisher, 'corrected');
$publisher->wait_for_catchup('s');

for my $query ('SELECT count(*), sum(k) FROM a', 'SELECT count(*), sum(k) FROM b', 'SELECT count(*), count(b_id), sum(a_id) FROM result')
{
	is($subscriber->safe_psql('postgres', $query), $publisher->safe_psql('postgres', $query), "replicated: $query");
}
is($publisher->safe_psql('postgres', 'SELECT count(b_id) FROM result'), '60', 'sixty pairs');

# It still works when rows of the streams are changed and removed by their owner.
$publisher->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', " . at(100) . "), sjoin.advance_watermark('b', " . at(100) . ')');
wait_and_verify($publisher, 'settled');
$publisher->safe_psql('postgres', 'DELETE FROM a WHERE k <= 10; TRUNCATE b');
wait_and_verify($publisher, 'retention');
$publisher->wait_for_catchup('s');
is($subscriber->safe_psql('postgres', 'SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)'), '90|0', 'changes are replicated');

$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION s');
$subscriber->stop;
$publisher->stop;
done_testing();
