# Prepared transactions, and one that commits long after later ones.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('transactions');
two_streams($node);
$node->safe_psql('postgres', q{SELECT sjoin.drop_stream('a'), sjoin.drop_stream('b')});
$node->safe_psql('postgres', q{
	SELECT sjoin.create_stream('a', 'ts', watermark_delay => '1 hour');
	SELECT sjoin.create_stream('b', 'ts', watermark_delay => '1 hour')});
left_join($node);

# Prepared: nothing before COMMIT PREPARED, everything after, across a restart too.
$node->safe_psql('postgres', q{
	BEGIN; INSERT INTO a (k, ts) VALUES (1, '2024-01-01 10:00+00'); PREPARE TRANSACTION 'one';
	BEGIN; INSERT INTO a (k, ts) VALUES (2, '2024-01-01 10:00+00'); PREPARE TRANSACTION 'two';
	BEGIN; INSERT INTO a (k, ts) VALUES (3, '2024-01-01 10:00+00'); PREPARE TRANSACTION 'three';
	INSERT INTO b (k, ts) SELECT g, '2024-01-01 10:00:01+00' FROM generate_series(1, 3) g});
wait_and_verify($node, 'prepared');
is($node->safe_psql('postgres', 'SELECT count(*) FROM result'), '0', 'nothing of a prepared transaction');
$node->safe_psql('postgres', "COMMIT PREPARED 'one'; ROLLBACK PREPARED 'two'");
wait_and_verify($node, 'committed');
is($node->safe_psql('postgres', 'SELECT k FROM result'), '1', 'the committed one');
$node->stop('immediate');
$node->start;
wait_and_verify($node, 'crash with a prepared transaction');
$node->safe_psql('postgres', "COMMIT PREPARED 'three'");
wait_and_verify($node, 'committed after the crash');
is($node->safe_psql('postgres', 'SELECT k FROM result ORDER BY k'), "1\n3", 'both committed ones');

# A transaction that stays open while many others commit.
my $open = $node->background_psql('postgres');
$open->query_safe("BEGIN; INSERT INTO a (k, ts) SELECT g, '2024-01-01 10:00+00' FROM generate_series(100, 199) g");
writer($node, 2000)->finish;
$node->safe_psql('postgres', "INSERT INTO b (k, ts) SELECT g, '2024-01-01 10:00:05+00' FROM generate_series(100, 149) g");
wait_and_verify($node, 'others');
is($node->safe_psql('postgres', 'SELECT count(*) FROM result r JOIN a ON a.id = a_id WHERE a.ts = ' . at(0) . ' AND a.k BETWEEN 100 AND 199'),
	'0', 'nothing of the open transaction');
$open->query_safe('COMMIT');
wait_and_verify($node, 'committed at last');
$node->safe_psql('postgres', "SELECT sjoin.advance_watermark('a', '2025-01-01'), sjoin.advance_watermark('b', '2025-01-01')");
wait_and_verify($node, 'end');
cmp_ok($node->safe_psql('postgres', 'SELECT count(DISTINCT a.id) FROM result r JOIN a ON a.id = a_id WHERE a.ts = ' . at(0) . ' AND a.k BETWEEN 100 AND 199'),
	'>=', '100', 'all of it');

# A join is created beside an open writer: neither waits for the other for good, no row is lost or doubled.
$node->safe_psql('postgres', "SELECT sjoin.drop_join('result'); TRUNCATE a, b");
$open->query_safe("BEGIN; INSERT INTO a (k, ts) VALUES (7, '2026-01-01 10:00+00')");
my $creator = $node->background_psql('postgres');
$creator->query_until(qr/started/, "\\echo started\n" . q{SELECT sjoin.create_join('result', 'SELECT a.id AS a_id, b.id AS b_id, a.k
	FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''5 s''');} . "\n");
$node->safe_psql('postgres', "INSERT INTO b (k, ts) VALUES (7, '2026-01-01 10:00:01+00')");
$open->query_safe('COMMIT');
$creator->query_safe('SELECT 1');
wait_and_verify($node, 'created beside a writer');
is($node->safe_psql('postgres', 'SELECT k FROM result'), '7', 'one pair');
$open->quit;
$creator->quit;
$node->stop;
done_testing();
