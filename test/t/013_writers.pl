# Many writers at once, in any order and isolation level; very many statements or rows in one transaction.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('writers');
$node->append_conf('postgresql.conf', "log_lock_waits = on\ndeadlock_timeout = '100ms'\nmax_connections = 60\nsjoin.state_memory = '256MB'");
$node->restart;
two_streams($node);
$node->safe_psql('postgres', q{
	SELECT sjoin.drop_stream('a'), sjoin.drop_stream('b');
	SELECT sjoin.create_stream('a', 'ts', watermark_delay => '1 hour'), sjoin.create_stream('b', 'ts', watermark_delay => '1 hour');
	ALTER TABLE a ADD spare int;
	ALTER SEQUENCE a_id_seq CACHE 50; ALTER SEQUENCE b_id_seq CACHE 50});
my @joins = map { "result$_" } 1 .. 10;
for my $i (1 .. 10)
{
	my $kind = $i % 2 ? 'LEFT JOIN' : 'JOIN';
	$node->safe_psql('postgres', qq{SELECT sjoin.create_join('result$i', 'SELECT a.id AS a_id, b.id AS b_id, a.k FROM a $kind b
		ON a.k = b.k AND b.ts BETWEEN a.ts - interval ''$i s'' AND a.ts + interval ''$i s''')});
}
$node->safe_psql('postgres', 'SELECT sjoin.wait_for()');

sub bench
{
	my ($name, $script, $clients, $transactions, $options) = @_;
	my $file = $node->basedir . "/$name.sql";

	append_to_file($file, $script);
	local $ENV{PGOPTIONS} = $options // '';
	my ($out, $err) = ('', '');
	ok(IPC::Run::run([ 'pgbench', '-n', '-c', $clients, '-t', $transactions, '-f', $file, '-h', $node->host, '-p', $node->port, 'postgres' ],
			'>', \$out, '2>', \$err), "$name: no client fails") or diag($err);
	return $out;
}

# SJ-055, SJ-075: streams in any order, savepoints, rollbacks, sequences with a cache; ten joins over the same tables.
my $log = -s $node->logfile;
bench('random', q{
\set k random(1, 2000)
\set first random(0, 1)
\set undo random(0, 3)
\set s random(0, 600)
BEGIN;
\if :first
INSERT INTO a (k, ts) VALUES (:k, timestamptz '2024-01-01 10:00+00' + :s * interval '1 s');
\endif
SAVEPOINT s;
INSERT INTO b (k, ts) SELECT :k + g, timestamptz '2024-01-01 10:00+00' + (:s + g) * interval '1 s' FROM generate_series(0, 2) g;
\if :undo
RELEASE s;
\else
ROLLBACK TO s;
\endif
INSERT INTO a (k, ts) VALUES (:k + 1, timestamptz '2024-01-01 10:00+00' + :s * interval '1 s');
\set end random(0, 5)
\if :end
COMMIT;
\else
ROLLBACK;
\endif
}, 20, 200);
wait_and_verify($node, "SJ-055 $_", $_) for @joins;
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM result10 WHERE b_id IS NOT NULL'), '>', 100, 'SJ-055 there are pairs');
my $waits = slurp_file($node->logfile, $log);
unlike($waits, qr/deadlock detected/, 'SJ-075 no deadlock');
unlike($waits, qr/still waiting for/, 'SJ-075 no writer waits for a lock');

# A transaction that is rolled back at last leaves nothing and blocks nothing, however long it was open.
my $open = $node->background_psql('postgres');
$open->query_safe("BEGIN; INSERT INTO a (k, ts) SELECT 50000, " . at(1) . ' FROM generate_series(1, 1000)');
$node->safe_psql('postgres', "INSERT INTO a (k, ts) VALUES (50000, " . at(1) . '); INSERT INTO b (k, ts) VALUES (50000, ' . at(1) . ')');
wait_and_verify($node, 'SJ-055 beside an open transaction', 'result1');
$open->query_safe('ROLLBACK');
$open->quit;
wait_and_verify($node, 'SJ-055 rolled back', 'result1');
is($node->safe_psql('postgres', 'SELECT count(*) FROM result1 WHERE k = 50000'), '1', 'SJ-055 only the committed row');
$node->safe_psql('postgres', "SELECT sjoin.drop_join('$_')") for @joins[ 1 .. 9 ];

# SJ-057: sjoin adds no serialization failure between writers of different rows, and finds all pairs.
for my $level ('serializable', 'repeatable\ read')
{
	my $base = $level eq 'serializable' ? 100000 : 200000;
	$node->safe_psql('postgres', 'DROP SEQUENCE IF EXISTS left_keys, right_keys; CREATE SEQUENCE left_keys; CREATE SEQUENCE right_keys');
	my $out = bench("level$base", qq{
\\set left random(0, 1)
BEGIN;
INSERT INTO a (k, ts) SELECT $base + nextval('left_keys') % 500, timestamptz '2024-01-01 10:05+00';
INSERT INTO b (k, ts) SELECT $base + nextval('right_keys') % 500, timestamptz '2024-01-01 10:05+00';
COMMIT;
}, 4, 250, "-c default_transaction_isolation=$level");
	like($out, qr/number of failed transactions: 0 /, "SJ-057 $level: no failure");
	wait_and_verify($node, "SJ-057 $level", 'result1');
	is($node->safe_psql('postgres', "SELECT count(*) FROM result1 WHERE k BETWEEN $base AND $base + 499 AND b_id IS NOT NULL"), '2000',
		"SJ-057 $level: all pairs");
}

# SJ-072: statements in great number take no lock and make no catalog row each.
is($node->safe_psql('postgres', q{
	CREATE TEMP TABLE seen (locks bigint, relations bigint, attributes bigint);
	DO $$
	DECLARE
		row_id bigint;
	BEGIN
		FOR i IN 1 .. 30000 LOOP
			INSERT INTO a (k, ts) VALUES (300000 + i, '2024-01-01 10:05+00') RETURNING id INTO row_id;
			UPDATE a SET spare = i WHERE id = row_id;
			IF i IN (100, 30000) THEN
				INSERT INTO seen SELECT (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()),
					(SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_attribute);
			END IF;
		END LOOP;
	END $$;
	SELECT count(DISTINCT (locks, relations, attributes)) FROM seen}), '1', 'SJ-072 locks and catalogs are flat');
$node->safe_psql('postgres', q{INSERT INTO b (k, ts) VALUES (300001, '2024-01-01 10:05+00'), (330000, '2024-01-01 10:05+00')});
wait_and_verify($node, 'SJ-072', 'result1');
is($node->safe_psql('postgres', 'SELECT count(*) FROM result1 WHERE k IN (300001, 330000)'), '2', 'SJ-072 first and last');

# SJ-074: one transaction of 200,000 rows with matches, the worker killed while it has them; another join goes on.
$node->safe_psql('postgres', q{
	CREATE TABLE c (LIKE a); CREATE TABLE d (LIKE a);
	SELECT sjoin.create_stream('c', 'ts'), sjoin.create_stream('d', 'ts');
	SELECT sjoin.create_join('other', 'SELECT c.id AS a_id, d.id AS b_id FROM c JOIN d ON c.k = d.k AND c.ts = d.ts');
	SELECT sjoin.wait_for('other');
	ALTER TABLE a ADD filler text;
	INSERT INTO b (k, ts) SELECT 1000000 + g, '2024-01-01 10:05+00' FROM generate_series(1, 200000) g});
await_worker($node);
my $pid = worker_pid($node);
$node->safe_psql('postgres', q{INSERT INTO a (k, ts, filler) SELECT 1000000 + g, '2024-01-01 10:05+00', repeat('x', 500) FROM generate_series(1, 200000) g});
kill 'KILL', $pid;
await_server($node);
await_worker($node, $pid);
$node->safe_psql('postgres', "INSERT INTO c (id, k, ts) VALUES (1, 1, " . at(1) . '); INSERT INTO d (id, k, ts) VALUES (2, 1, ' . at(1) . ')');
wait_and_verify($node, 'SJ-074 another join', 'other');
is($node->safe_psql('postgres', 'SELECT a_id, b_id FROM other'), '1|2', 'SJ-074 it has its pair');
ok($node->poll_query_until('postgres', q{SELECT sjoin.wait_for('result1', timeout => '60 s')}), 'SJ-074 the big one comes through');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT k) FROM result1 WHERE k > 1000000'), '200000|200000', 'SJ-074 every pair once');
wait_and_verify($node, 'SJ-074', 'result1');
$node->stop;
done_testing();
