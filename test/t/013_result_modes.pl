# A publication per output mode: a subscriber follows an upsert table by its rows, changelog and append tables by their numbers.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my %key = (upsert => 'sjoin_id', changelog => 'sjoin_seq', append => 'sjoin_seq');
my @modes = sort keys %key;
my $publisher = sjoin_node('publisher', allows_streaming => 'logical');
my $subscriber = sjoin_node('subscriber', preload => 0);

# Everything written is in the results and has arrived
sub followed
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	for my $mode (@modes)
	{
		wait_and_verify($publisher, "$name: $mode", $mode);
		$publisher->wait_for_catchup("s_$mode");
		my $rows = "SELECT * FROM $mode ORDER BY $key{$mode}";
		is($subscriber->safe_psql('postgres', $rows), $publisher->safe_psql('postgres', $rows), "$name: $mode is the same there");
	}
	my $replay = q{SELECT a_id, b_id, v, sjoin_id, sjoin_version FROM (SELECT DISTINCT ON (sjoin_id) * FROM changelog
		ORDER BY sjoin_id, sjoin_seq DESC) x WHERE sjoin_op IN ('+I', '+U') ORDER BY sjoin_id};
	is( $subscriber->safe_psql('postgres', $replay),
		$publisher->safe_psql('postgres', 'SELECT a_id, b_id, v, sjoin_id, sjoin_version FROM upsert ORDER BY sjoin_id'),
		"$name: replaying the changelog there gives the upsert table here");
}

two_streams($publisher);
$publisher->safe_psql('postgres', 'ALTER TABLE a ADD v int DEFAULT 0');
for my $mode (@modes)
{
	$publisher->safe_psql('postgres', qq{
		SELECT sjoin.create_join('$mode', 'SELECT a.id AS a_id, b.id AS b_id, a.v FROM a LEFT JOIN b
			ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''', output_mode => '$mode');
		CREATE PUBLICATION p_$mode FOR TABLE $mode});
	my $columns = $publisher->safe_psql('postgres', qq{
		SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
		  FROM pg_attribute WHERE attrelid = '$mode'::regclass AND attnum > 0});
	$subscriber->safe_psql('postgres', "CREATE TABLE $mode ($columns, PRIMARY KEY ($key{$mode}))");
	$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s_$mode CONNECTION '" . $publisher->connstr . " dbname=postgres' PUBLICATION p_$mode");
	$subscriber->wait_for_subscription_sync($publisher, "s_$mode");
}
$publisher->safe_psql('postgres', 'SELECT sjoin.wait_for()');

$publisher->safe_psql('postgres', 'INSERT INTO a (k, ts) SELECT g, ' . at(0) . ' FROM generate_series(1, 40) g');
$publisher->safe_psql('postgres', 'INSERT INTO b (k, ts) SELECT g, ' . at(1) . ' FROM generate_series(1, 20) g');
followed('pairs');
$publisher->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', " . at(6) . "), sjoin.advance_watermark('b', " . at(6) . ')');
followed('padded');

# within the allowed lateness: padded rows are taken back
$publisher->safe_psql('postgres', 'INSERT INTO b (k, ts) SELECT g, ' . at(5) . ' FROM generate_series(21, 30) g');
followed('corrected');
is($subscriber->safe_psql('postgres', 'SELECT count(b_id) FROM upsert'), '30', 'thirty pairs');
is( $subscriber->safe_psql('postgres', q{SELECT string_agg(sjoin_op || ' ' || n, ', ' ORDER BY sjoin_op) FROM (SELECT sjoin_op, count(*) AS n FROM changelog GROUP BY 1) x}),
	'+I 50, -D 10', 'the changelog says how it came about');

# changes of the streams
$publisher->safe_psql('postgres', 'UPDATE a SET v = id WHERE k % 3 = 0; DELETE FROM b WHERE k % 5 = 0; UPDATE b SET k = k + 1 WHERE k % 7 = 0');
followed('changed');

$subscriber->safe_psql('postgres', "DROP SUBSCRIPTION s_$_") for @modes;
$subscriber->stop;
$publisher->stop;
done_testing();
