# SJ-061, SJ-062: streams on a subscriber: rows that apply workers and table synchronisation write are events like others.
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
	ALTER TABLE b REPLICA IDENTITY FULL};
$publisher->append_conf('postgresql.conf', "logical_decoding_work_mem = '64kB'");
$publisher->restart;
$publisher->safe_psql('postgres', $tables);
$subscriber->safe_psql('postgres', $tables);
$subscriber->safe_psql('postgres', q{
	SELECT sjoin.create_stream('a', 'ts', watermark_delay => '1 day'), sjoin.create_stream('b', 'ts', watermark_delay => '1 day');
	SELECT sjoin.create_join('result', 'SELECT a.id AS a_id, b.id AS b_id, a.twice, a.payload, b.payload AS b_payload FROM a LEFT JOIN b
		ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''');
	SELECT sjoin.wait_for('result')});

# what is there at first comes by the synchronisation of tables
$publisher->safe_psql('postgres', 'INSERT INTO a (id, k, ts, payload) SELECT g, g, ' . at(0) . q{, repeat(md5(g::text), 200) FROM generate_series(1, 1000) g});
$publisher->safe_psql('postgres', 'INSERT INTO b SELECT g, g, ' . at(1) . q{, 'first' FROM generate_series(1, 500) g});
$publisher->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE a, b');
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '" . $publisher->connstr . " dbname=postgres' PUBLICATION p WITH (streaming = on)");
$subscriber->wait_for_subscription_sync($publisher, 's');
wait_and_verify($subscriber, 'synchronised');
is($subscriber->safe_psql('postgres', 'SELECT count(*), count(b_id), sum(twice) FROM result'), '500|500|250500', 'SJ-061 rows of the first copy');

# then by apply workers: small transactions, and one that is streamed before it has ended
$publisher->safe_psql('postgres', "INSERT INTO b VALUES ($_, $_, " . at(2) . q{, 'single')}) for 501 .. 520;
$publisher->safe_psql('postgres', 'INSERT INTO b SELECT g, g, ' . at(2) . q{, repeat(md5(g::text), 100) FROM generate_series(521, 1000) g});
$publisher->safe_psql('postgres', 'BEGIN; INSERT INTO a (id, k, ts, payload) SELECT g, g, ' . at(0) . q{, 'undone' FROM generate_series(5001, 9000) g; ROLLBACK});
$publisher->wait_for_catchup('s');
wait_and_verify($subscriber, 'applied');
is($subscriber->safe_psql('postgres', 'SELECT count(*), count(DISTINCT a_id), sum(twice) FROM result'), '1000|1000|1001000', 'SJ-061 rows of apply workers');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM result JOIN a ON a.id = a_id JOIN b ON b.id = b_id
	WHERE result.payload = a.payload AND b_payload = b.payload'), '1000', 'SJ-062 whole values');

# a session in the role of a replica
$subscriber->safe_psql('postgres', 'SET session_replication_role = replica;
	INSERT INTO a (id, k, ts) VALUES (2001, 2001, ' . at(0) . '); INSERT INTO b (id, k, ts) VALUES (2001, 2001, ' . at(0) . ')');
wait_and_verify($subscriber, 'replica role');
is($subscriber->safe_psql('postgres', 'SELECT a_id, b_id FROM result WHERE a_id = 2001'), '2001|2001', 'SJ-061 a session in the role of a replica');

# rows without a partner, from both sides of a crash
$publisher->safe_psql('postgres', 'INSERT INTO a (id, k, ts, payload) SELECT g, g, ' . at(0) . q{, 'lonely' FROM generate_series(3001, 3010) g});
$publisher->wait_for_catchup('s');
$subscriber->stop('immediate');
$subscriber->start;
$publisher->safe_psql('postgres', 'INSERT INTO a (id, k, ts, payload) SELECT g, g, ' . at(0) . q{, 'lonely' FROM generate_series(3011, 3020) g});
$publisher->wait_for_catchup('s');
$subscriber->safe_psql('postgres', q{SELECT sjoin.advance_watermark('a', '2025-01-01'), sjoin.advance_watermark('b', '2025-01-01')});
ok($subscriber->poll_query_until('postgres', q{SELECT sjoin.wait_for('result')}), 'after the crash');
wait_and_verify($subscriber, 'end');
is($subscriber->safe_psql('postgres', 'SELECT count(*), count(b_id) FROM result'), '1021|1001', 'SJ-062 padded rows');
unlike(slurp_file($subscriber->logfile), qr/was terminated by signal|TRAP/, 'SJ-062 no process crashed');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION s');
$subscriber->stop;
$publisher->stop;
done_testing();
