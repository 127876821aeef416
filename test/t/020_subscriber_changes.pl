# SJ-061, SJ-062: updates, deletes and TRUNCATE that apply workers write are followed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $publisher = sjoin_node('origin', allows_streaming => 'logical', preload => 0);
my $subscriber = sjoin_node('reporting');
my $tables = q{
	CREATE TABLE a (id bigint PRIMARY KEY, k int, twice int GENERATED ALWAYS AS (k * 2) STORED, ts timestamptz, payload text);
	CREATE TABLE b (id bigint, k int, ts timestamptz, payload text);
	ALTER TABLE a ALTER payload SET STORAGE EXTERNAL;
	ALTER TABLE b ALTER payload SET STORAGE EXTERNAL;
	ALTER TABLE b REPLICA IDENTITY FULL};
$publisher->append_conf('postgresql.conf', "logical_decoding_work_mem = '64kB'");
$publisher->restart;
$publisher->safe_psql('postgres', "$tables; CREATE PUBLICATION p FOR TABLE a, b");
$subscriber->safe_psql('postgres', $tables);
$subscriber->safe_psql('postgres', q{
	SELECT sjoin.create_stream('a', 'ts', watermark_delay => '1 day'), sjoin.create_stream('b', 'ts', watermark_delay => '1 day');
	SELECT sjoin.create_join('result', 'SELECT a.id AS a_id, b.id AS b_id, a.twice, a.payload, b.payload AS b_payload FROM a LEFT JOIN b
		ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''');
	SELECT sjoin.wait_for('result')});
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '" . $publisher->connstr . " dbname=postgres' PUBLICATION p WITH (streaming = on)");
$subscriber->wait_for_subscription_sync($publisher, 's');

sub applied
{
	my ($what, $sql, $expected) = @_;

	$publisher->safe_psql('postgres', $sql);
	$publisher->wait_for_catchup('s');
	wait_and_verify($subscriber, $what);
	is($subscriber->safe_psql('postgres', 'SELECT count(*), count(b_id), sum(result.twice), count(*) FILTER (WHERE result.payload = a.payload AND b_payload = b.payload)
		FROM result LEFT JOIN a ON a.id = a_id LEFT JOIN b ON b.id = b_id'), $expected, "SJ-061 $what");
}

applied('inserted', 'INSERT INTO a (id, k, ts, payload) SELECT g, g, ' . at(0) . q{, repeat(md5(g::text), 200) FROM generate_series(1, 1000) g;
	INSERT INTO b SELECT g, g, } . at(1) . q{, repeat(md5(g::text), 200) FROM generate_series(1, 1000) g}, '1000|1000|1001000|1000');
applied('another key', 'UPDATE a SET k = k + 1', '999|999|1000998|999');
applied('back', 'UPDATE a SET k = k - 1', '1000|1000|1001000|1000');
applied('values of the other table', q{UPDATE b SET payload = 'short' WHERE id <= 500}, '1000|1000|1001000|1000');
applied('deleted', 'DELETE FROM b WHERE id > 900', '900|900|810900|900');
applied('two changes in one transaction', 'BEGIN; UPDATE a SET k = 1 WHERE id = 2; UPDATE a SET k = 2 WHERE id = 2; DELETE FROM a WHERE id = 3; COMMIT', '899|899|810894|899');
applied('rolled back', 'BEGIN; UPDATE a SET k = 0; DELETE FROM b; ROLLBACK', '899|899|810894|899');
applied('a table emptied', 'TRUNCATE b', '0|0||0');
$publisher->safe_psql('postgres', 'INSERT INTO b SELECT g, g, ' . at(1) . q{, 'new' FROM generate_series(1, 10) g});
$publisher->wait_for_catchup('s');
$subscriber->stop('immediate');
$subscriber->start;
ok($subscriber->poll_query_until('postgres', q{SELECT sjoin.wait_for('result')}), 'after a crash');
applied('after a crash', 'UPDATE b SET k = k + 1', '9|9|124|9');
$subscriber->safe_psql('postgres', q{SET session_replication_role = replica; DELETE FROM b WHERE k = 11});
wait_and_verify($subscriber, 'a session in the role of a replica');
is($subscriber->safe_psql('postgres', 'SELECT count(b_id) FROM result'), '8', 'SJ-061 a session in the role of a replica');
$subscriber->safe_psql('postgres', q{SELECT sjoin.advance_watermark('a', '2025-01-01'), sjoin.advance_watermark('b', '2025-01-01')});
wait_and_verify($subscriber, 'end');
unlike(slurp_file($subscriber->logfile), qr/was terminated by signal|TRAP/, 'SJ-062 no process crashed');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION s');
$subscriber->stop;
$publisher->stop;
done_testing();
