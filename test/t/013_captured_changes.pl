# What is in the log of rows that change: partition by partition, in order, and nothing of settled rows.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('captured', allows_streaming => 'logical');
$node->safe_psql('postgres', 'CREATE EXTENSION sjoin_test');
my $end = 0;

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Runs statements in one session and compares what they left in the log.
sub captures
{
	my ($name, $sql, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql($sql);
	is(sql("SELECT sjoin_test.log_text($end)"), $expected, $name);
	$end = sql('SELECT sjoin_test.log_end()');
}

# Moves all watermarks and waits until the horizon is known.
sub settle_until
{
	my ($seconds) = @_;
	sql("SELECT sjoin.advance_watermark('p', " . at($seconds) . "), sjoin.advance_watermark('b', " . at($seconds) . ')');
	is(sql(q{SELECT sjoin.wait_for('result', timeout => '60 s')}), 't', "horizon after $seconds s");
	$end = sql('SELECT sjoin_test.log_end()');
}

sub differences
{
	return sql(q{SELECT difference, n FROM sjoin.verify('result') WHERE difference <> 'settled'});
}

sql('CREATE TABLE p (id int, k int, ts timestamptz) PARTITION BY RANGE (ts);
	CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (' . at(0) . ') TO (' . at(100) . ');
	CREATE TABLE p_2 (junk text, ts timestamptz, k int, id int);
	ALTER TABLE p_2 DROP COLUMN junk;
	ALTER TABLE p ATTACH PARTITION p_2 FOR VALUES FROM (' . at(100) . ') TO (' . at(200) . ');
	CREATE TABLE p_3 PARTITION OF p FOR VALUES FROM (' . at(200) . ') TO (' . at(400) . ') PARTITION BY RANGE (ts);
	CREATE TABLE p_3a PARTITION OF p_3 FOR VALUES FROM (' . at(200) . ') TO (' . at(300) . q{);
	CREATE TABLE b (id int PRIMARY KEY, k int, ts timestamptz);
	CREATE TABLE child (b_id int REFERENCES b);
	SELECT sjoin.create_stream('p', 'ts', watermark_delay => '0 s'), sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
	SELECT sjoin.create_join('result', 'SELECT p.id, b.id AS b_id FROM p JOIN b
		ON p.k = b.k AND b.ts BETWEEN p.ts AND p.ts + interval ''5 s''');
	SELECT sjoin.wait_for('result')});
sql('CREATE TABLE p_3b PARTITION OF p_3 FOR VALUES FROM (' . at(300) . ') TO (' . at(400) . ')');

# TRUNCATE: by the name of the root, of a leaf, by CASCADE; each in its place
my ($p1, $p2, $p3) = map { "INSERT INTO p VALUES ($_, $_, " . at($_ == 3 ? 350 : 100 * $_ - 50) . ')' } 1 .. 3;
my $b1 = 'INSERT INTO b VALUES (1, 1, ' . at(50) . ')';
my $b2 = 'INSERT INTO b VALUES (2, 2, ' . at(50) . ')';
captures('rows before and after', "BEGIN; $p1; $p2; TRUNCATE p_1; $p1; COMMIT", 'p_1:ITI p_2:I');
captures('the root', "BEGIN; $p3; TRUNCATE p; $p1; COMMIT", 'p_1:TI p_2:T p_3a:T p_3b:IT');
captures('twice in a transaction', "BEGIN; TRUNCATE p; TRUNCATE p_1, p_1; $p1; TRUNCATE p_3, p_1; COMMIT", 'p_1:TIT p_2:T p_3a:T p_3b:T');
captures('not partitioned', "BEGIN; $b1; TRUNCATE b CASCADE; $b1; $b2; COMMIT", 'b:ITII');
captures('cascade from another table', 'BEGIN; CREATE TABLE parent (id int PRIMARY KEY); ALTER TABLE b ADD FOREIGN KEY (id) REFERENCES parent NOT VALID;
	TRUNCATE parent RESTART IDENTITY CASCADE; ALTER TABLE b DROP CONSTRAINT b_id_fkey; DROP TABLE parent; COMMIT', 'b:T');
captures('rolled back', "BEGIN; $b1; SAVEPOINT s; TRUNCATE b CASCADE; ROLLBACK TO s; $b2; SAVEPOINT s; TRUNCATE p_1; RELEASE s; $p1; COMMIT", 'b:II p_1:TI');
captures('in an exception block', "DO \$\$ BEGIN $p1; BEGIN TRUNCATE p; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END; $p1; END \$\$", 'p_1:II');
captures('refused', "BEGIN; SAVEPOINT s; \\set ON_ERROR_STOP off\nTRUNCATE b;\n\\set ON_ERROR_STOP on\nROLLBACK TO s; COMMIT", '');
captures('of a created table', 'CREATE TABLE other (i int); TRUNCATE other; DROP TABLE other', '');

# a trigger that runs between the lock and the truncation, and one of another table after it
sql(q{CREATE TABLE other (i int);
	CREATE FUNCTION refill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO b VALUES (9, 9, '2024-01-01 10:00+00'); RETURN NULL; END $$;
	CREATE TRIGGER refill BEFORE TRUNCATE ON b EXECUTE FUNCTION refill()});
captures('a trigger before it', 'TRUNCATE b CASCADE', 'b:IT');
sql('DROP TRIGGER refill ON b; CREATE TRIGGER refill AFTER TRUNCATE ON other EXECUTE FUNCTION refill()');
captures('a trigger after it', 'TRUNCATE other, b CASCADE', 'b:TI');
sql('DROP TABLE other');

# Records are in order however much is written, in whatever subtransaction.
captures('many rows', "BEGIN; $b1; SAVEPOINT s; INSERT INTO b SELECT g, g, " . at(50) . " FROM generate_series(10, 100000) g; RELEASE s; TRUNCATE b CASCADE; $b2; COMMIT",
	'b:' . 'I' x 99992 . 'TI');
sql('CREATE TABLE wide (id int, k int, ts timestamptz) PARTITION BY LIST (k)');
sql("SELECT sjoin.create_stream('wide', 'ts', watermark_delay => '0 s')");
sql("DO \$\$ BEGIN FOR i IN 1 .. 40 LOOP EXECUTE format('CREATE TABLE wide_%s PARTITION OF wide FOR VALUES IN (%s)', i, i); END LOOP; END \$\$");
sql(q{SELECT sjoin.create_join('wider', 'SELECT wide.id FROM wide JOIN b ON wide.k = b.k AND b.ts = wide.ts')});
captures('many partitions', 'BEGIN; INSERT INTO wide SELECT g, g % 40 + 1, ' . at(50) . ' FROM generate_series(1, 400) g; TRUNCATE wide_7; INSERT INTO wide VALUES (1, 7, ' . at(50) . '); COMMIT',
	join(' ', sort map { "wide_$_:" . 'I' x 10 . ($_ == 7 ? 'TI' : '') } 1 .. 40));
is(sql(q{SELECT count(DISTINCT seq) = count(*) FROM sjoin_test.log_records()}), 't', 'numbers are used once');
is(sql(q{SELECT string_agg(DISTINCT op::text || changes, ' ') FROM sjoin_test.log_records() WHERE source = 'wide_7'::regclass}), 'Itrue Ttrue', 'a chunk says that it has changes');
is(sql(q{SELECT DISTINCT changes FROM sjoin_test.log_records() WHERE source = 'wide_8'::regclass}), 'f', 'or has not');
sql("SELECT sjoin.drop_join('wider'); SELECT sjoin.drop_stream('wide'); DROP TABLE wide");
$end = sql('SELECT sjoin_test.log_end()');

# Partitions go.
captures('DETACH', "BEGIN; $p3; ALTER TABLE p DETACH PARTITION p_3; INSERT INTO p_3 VALUES (4, 4, " . at(350) . '); COMMIT', 'p_3a:T p_3b:IT');
captures('DETACH rolled back', "BEGIN; $p1; ALTER TABLE p DETACH PARTITION p_2; ROLLBACK", '');
captures('DETACH CONCURRENTLY', 'ALTER TABLE p DETACH PARTITION p_2 CONCURRENTLY', 'p_2:T');
is(sql(q{SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('p_2'::regclass, 'p_3'::regclass, 'p_3a'::regclass, 'p_3b'::regclass)}), '0', 'no trigger is left');
captures('written to afterwards', 'INSERT INTO p_2 (id, k, ts) VALUES (5, 5, ' . at(150) . '); TRUNCATE p_3; DELETE FROM p_2', '');
captures('ATTACH of a table with rows', 'INSERT INTO p_2 (id, k, ts) SELECT g, g, ' . at(150) . ' FROM generate_series(1, 3) g;
	ALTER TABLE p ATTACH PARTITION p_2 FOR VALUES FROM (' . at(100) . ') TO (' . at(200) . ')', 'p_2:III');
captures('of one without', 'ALTER TABLE p ATTACH PARTITION p_3 FOR VALUES FROM (' . at(200) . ') TO (' . at(400) . ')', '');
captures('captured at once', "$p2; $p3; TRUNCATE p_3a", 'p_2:I p_3a:T p_3b:I');
captures('DROP TABLE', "BEGIN; $p2; DROP TABLE p_2; COMMIT", sql("SELECT 'p_2'::regclass::oid") . ':IT');
captures('DROP of a sub-tree, rolled back', 'BEGIN; DROP TABLE p_3; ROLLBACK', '');
sql('SELECT sjoin_test.log_end()');
my ($a_oid, $b_oid) = map { sql("SELECT '$_'::regclass::oid") } 'p_3a', 'p_3b';
captures('DROP of a sub-tree', 'DROP TABLE p_3', join(' ', map { "$_:T" } sort $a_oid, $b_oid));
sql('TRUNCATE p, b CASCADE');

# Deletions: only what some join may still take out.
settle_until(50);
my @rows = map { "INSERT INTO p VALUES ($_, $_, " . at($_) . '); INSERT INTO b VALUES (' . "$_, $_, " . at($_) . ')' } 60, 70, 79, 80;
captures('new rows', join('; ', @rows), 'b:IIII p_1:IIII');
captures('a live row', 'DELETE FROM p WHERE id = 79', 'p_1:D');
settle_until(80);    # the horizon is five seconds before
is(sql(q{SELECT rows_in FROM sjoin.stat_inputs WHERE input = 'b'}) > 0, 1, 'rows in');
my $rows_in = sql(q{SELECT sum(rows_in) FROM sjoin.stat_inputs});
captures('settled rows', 'DELETE FROM p WHERE id = 70; DELETE FROM b WHERE id = 70', '');
is(sql(q{SELECT sjoin.wait_for('result', timeout => '60 s')}), 't', 'wait_for');
is(sql(q{SELECT sum(rows_in) FROM sjoin.stat_inputs}), $rows_in, 'no join has seen them');
is(sql(q{SELECT difference, n, row_data FROM sjoin.verify('result') WHERE row_data->>'id' = '70'}), 'settled|1|{"id": 70, "b_id": 70}', 'verify knows that the pair was settled');
captures('by a plan of the session, settled and not', 'PREPARE d AS DELETE FROM p WHERE id = $1; EXECUTE d(70); EXECUTE d(80)', 'p_1:D');
# A statement whose condition is on the event time: whatever it says, what is live is captured.
sub sweeps
{
	my ($condition, $expected, $prefix) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql('INSERT INTO b VALUES (74, 74, ' . at(74) . '), (75, 75, ' . at(75) . '), (76, 76, ' . at(76) . '); INSERT INTO p SELECT * FROM b WHERE id IN (74, 75, 76)');
	$end = sql('SELECT sjoin_test.log_end()');
	for my $table ('b', 'p', 'p_1')
	{
		my $sql = ($prefix // 'DELETE FROM %s WHERE') . " $condition";
		$sql =~ s/%s/$table/g;
		sql($sql);
	}
	is(sql("SELECT coalesce(sjoin_test.log_text($end), '')"), $expected, "condition $condition");
	sql('DELETE FROM b WHERE id IN (74, 75, 76); DELETE FROM p WHERE id IN (74, 75, 76)');
	$end = sql('SELECT sjoin_test.log_end()');
}
sql('CREATE INDEX ON b (ts)');
sweeps('ts < ' . at(75), '');
sweeps('ts <= ' . at(75), 'b:D p_1:D');
sweeps(at(75) . ' > ts AND id > 0', '');
sweeps(at(75) . ' >= ts', 'b:D p_1:D');
sweeps('ts = ' . at(75), 'b:D p_1:D');
sweeps('ts = ' . at(74), '');
sweeps(q{ts < date '2024-01-02' AND id BETWEEN 74 AND 76}, 'b:DD p_1:DD');
sweeps(q{id BETWEEN 74 AND 76 AND ts < now() - interval '1 day'}, 'b:DD p_1:DD');
sweeps('ts < ' . at(75) . ' OR id = 76', 'b:D p_1:D');
sweeps('id BETWEEN 74 AND 76 AND NOT (ts < ' . at(75) . ')', 'b:DD p_1:DD');
sweeps(q{ts < 'infinity' AND id IN (74, 75)}, 'b:D p_1:D');
sweeps('ts < ' . at(75) . ' RETURNING id) SELECT count(*) FROM gone', '', 'WITH gone AS (DELETE FROM %s WHERE');
sweeps('%s.id = o.id AND o.ts < ' . at(75), '', 'DELETE FROM %s USING (SELECT * FROM b UNION ALL SELECT * FROM p) o WHERE %s.ts < ' . at(75) . ' AND');
sweeps('%s.id = o.id AND o.ts < ' . at(77), 'b:DD p_1:DD', 'DELETE FROM %s USING (SELECT * FROM p UNION ALL SELECT * FROM b) o WHERE');
sweeps('ts < $1; EXECUTE d(' . at(75) . '); EXECUTE d(' . at(76) . ')', 'b:D p_1:D', 'PREPARE d(timestamptz) AS DELETE FROM %s WHERE');
captures('by time in a transaction that wrote before', 'BEGIN; INSERT INTO b VALUES (61, 61, ' . at(61) . '); DELETE FROM b WHERE ts < ' . at(62) . ' AND id = 61; COMMIT', 'b:ID');
captures('in a transaction that wrote before', 'BEGIN; INSERT INTO p VALUES (61, 61, ' . at(61) . '); DELETE FROM p WHERE id = 61; COMMIT', 'p_1:ID');
captures('in one that wrote to another stream', 'INSERT INTO p VALUES (62, 62, ' . at(62) . '); BEGIN; INSERT INTO b VALUES (62, 62, ' . at(62) . '); DELETE FROM p WHERE id = 62; COMMIT', 'b:I p_1:I');
captures('infinite', q{INSERT INTO b VALUES (900, 1, 'infinity'), (901, 1, '-infinity'), (902, 1, NULL); DELETE FROM b WHERE id >= 900}, 'b:III');
captures('an update of a settled row', 'INSERT INTO b VALUES (63, 63, ' . at(63) . '); UPDATE b SET k = 64 WHERE id = 63', 'b:IU');
captures('a renamed event time', 'ALTER TABLE p RENAME ts TO moment; INSERT INTO p VALUES (65, 65, ' . at(65) . '); DELETE FROM p WHERE id = 65; INSERT INTO p VALUES (81, 81, ' . at(81) . '); DELETE FROM p WHERE id = 81; ALTER TABLE p RENAME moment TO ts', 'p_1:IID');

# Rows that another transaction makes live while the statement waits for it.
sub rechecks
{
	my ($name, $delete, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	sql('INSERT INTO b SELECT g, g, ' . at(60) . ' FROM generate_series(300, 309) g; INSERT INTO p SELECT * FROM b WHERE id >= 300');
	$end = sql('SELECT sjoin_test.log_end()');
	my $updater = $node->background_psql('postgres');
	my $deleter = $node->background_psql('postgres');
	$updater->query_safe('BEGIN; UPDATE b SET ts = ' . at(90) . ' WHERE id IN (303, 306); UPDATE p SET ts = ' . at(90) . ' WHERE id IN (303, 306)');
	$deleter->query_until(qr/started/, "\\echo started\n$delete;\n");
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE%'}), "$name waits");
	$updater->query_safe('COMMIT');
	$updater->quit;
	$deleter->quit;
	is(sql("SELECT sjoin_test.log_text($end)"), $expected, $name);
	sql('DELETE FROM b WHERE id >= 300; DELETE FROM p WHERE id >= 300');
	$end = sql('SELECT sjoin_test.log_end()');
}
rechecks('a scan', 'DELETE FROM b WHERE id > 299', 'b:UUDD p_1:UU');
rechecks('a partition', 'DELETE FROM p_1 WHERE k > 299', 'b:UU p_1:UUDD');
rechecks('all partitions', 'DELETE FROM p WHERE k > 299 RETURNING id', 'b:UU p_1:UUDD');
rechecks('a join', 'DELETE FROM b USING generate_series(300, 309) g WHERE b.id = g', 'b:UUDD p_1:UU');
rechecks('a condition that the new row does not fulfil', 'DELETE FROM b WHERE id > 299 AND ts < ' . at(61), 'b:UU p_1:UU');

# Another join over the stream does not know its horizon yet: everything is captured.
my $open = $node->background_psql('postgres');
$open->query_safe('SET client_min_messages = warning');
$open->query_safe('DELETE FROM b WHERE id = 80; INSERT INTO b VALUES (66, 66, ' . at(66) . ')');
$end = sql('SELECT sjoin_test.log_end()');
captures('in the transaction that makes it', q{BEGIN; SELECT sjoin.create_join('second', 'SELECT p.id FROM p JOIN b ON p.k = b.k AND b.ts = p.ts'); DELETE FROM b WHERE id = 66; COMMIT}, 'b:D');
is(sql(q{SELECT sjoin.wait_for('second', timeout => '60 s')}), 't', 'the second join runs');
sql('INSERT INTO b VALUES (67, 67, ' . at(67) . ')');
is(sql(q{SELECT sjoin.wait_for(timeout => '60 s')}), 't', 'wait_for');
$end = sql('SELECT sjoin_test.log_end()');
$open->query_safe('DELETE FROM b WHERE id = 67');
is(sql("SELECT sjoin_test.log_text($end)"), sql(q{SELECT CASE WHEN horizon < } . at(67) . q{ THEN 'b:D' ELSE '' END FROM (SELECT sjoin.watermark('second') AS horizon) h}),
	'a session that knew only the first join looks again');
sql('DROP TABLE second');
$end = sql('SELECT sjoin_test.log_end()');
sql('INSERT INTO b VALUES (68, 68, ' . at(68) . ')');
$end = sql('SELECT sjoin_test.log_end()');
$open->query_safe('DELETE FROM b WHERE id = 68');
is(sql("SELECT sjoin_test.log_text($end)"), '', 'and again when it has been dropped');
$open->quit;

# After a crash everything is captured until the worker knows the horizon.
sql('INSERT INTO b SELECT g, g, ' . at(60) . ' FROM generate_series(200, 210) g');
is(sql(q{SELECT sjoin.wait_for('result', timeout => '60 s')}), 't', 'wait_for');
$end = sql('SELECT sjoin_test.log_end()');
sql("BEGIN; ALTER VIEW result_query SET (security_barrier = true); PREPARE TRANSACTION 'lock'");
$node->stop('immediate');
$node->start;
captures('after a crash, while the worker waits for a lock', 'DELETE FROM b WHERE id = 200', 'b:D');
sql("ROLLBACK PREPARED 'lock'");
is(sql(q{SELECT sjoin.wait_for('result', timeout => '60 s')}), 't', 'rebuilt');
captures('when the state is rebuilt', 'DELETE FROM b WHERE id = 201', '');
my $worker = worker_pid($node);
sql("SELECT pg_terminate_backend($worker)");
captures('the worker has just ended', 'DELETE FROM b WHERE id = 202', '');
await_worker($node, $worker);
is(sql(q{SELECT sjoin.wait_for('result', timeout => '60 s')}), 't', 'another worker');
captures('and another has come', 'DELETE FROM b WHERE id = 203', '');
is(differences(), '', 'the result is the batch answer');

# Triggers come through a dump, and are put right if need be.
my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, 'postgres' ], 'pg_dump');
sql('CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'restored', '-f', $dump ], 'restore');
is( $node->safe_psql('restored', q{SELECT tgrelid::regclass || ' ' || tgenabled::text || ' ' || pg_get_triggerdef(oid, true) FROM pg_trigger WHERE tgname = '!sjoin_delete' ORDER BY tgrelid::regclass::text}),
	"b A CREATE TRIGGER \"!sjoin_delete\" AFTER DELETE ON b FOR EACH ROW WHEN (sjoin.may_change('b'::regclass, old.ts)) EXECUTE FUNCTION sjoin.capture()\n" .
	"p A CREATE TRIGGER \"!sjoin_delete\" AFTER DELETE ON p FOR EACH ROW WHEN (sjoin.may_change('p'::regclass, old.ts)) EXECUTE FUNCTION sjoin.capture()\n" .
	"p_1 A CREATE TRIGGER \"!sjoin_delete\" AFTER DELETE ON p_1 FOR EACH ROW WHEN (sjoin.may_change('p'::regclass, old.ts)) EXECUTE FUNCTION sjoin.capture()",
	'the delete trigger in the restored database');
is($node->safe_psql('restored', 'DELETE FROM b; DELETE FROM p; TRUNCATE p; SELECT count(*) FROM b'), '0', 'the restored tables are written to');
is($node->safe_psql('restored', q{
	ALTER TABLE b ADD COLUMN later timestamptz;
	SELECT FROM sjoin.create_stream('b', 'later'); SELECT FROM sjoin.create_stream('p', 'ts');
	DROP TABLE IF EXISTS result CASCADE;
	SELECT FROM sjoin.create_join('result', 'SELECT p.id FROM p JOIN b ON p.k = b.k AND b.later = p.ts');
	SELECT substring(pg_get_triggerdef(oid), 'WHEN .*\)\)') FROM pg_trigger WHERE tgrelid = 'b'::regclass AND tgname = '!sjoin_delete'}) =~ s/^\s+//r,
	"WHEN (sjoin.may_change('b'::regclass, old.later))", 'another event time');
is($node->safe_psql('restored', q{SELECT sjoin.drop_join('result'); ALTER TABLE b DROP COLUMN later; SELECT stream FROM sjoin.streams}), "t\np", 'the trigger does not keep a column');

# An apply worker: inserts, deletions, and truncation of a leaf and of a root, without any user of this server.
my $publisher = PostgreSQL::Test::Cluster->new('source');
$publisher->init(allows_streaming => 'logical');
$publisher->start;
$publisher->safe_psql('postgres', 'CREATE TABLE p (id int, k int, ts timestamptz) PARTITION BY RANGE (ts);
	CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (' . at(0) . ') TO (' . at(100) . ');
	CREATE TABLE b (id int PRIMARY KEY, k int, ts timestamptz);
	ALTER TABLE p_1 REPLICA IDENTITY FULL;
	CREATE PUBLICATION all_of_it FOR TABLE p, b');
sql('TRUNCATE p, b CASCADE');
sql('DROP TABLE child');
sql("CREATE SUBSCRIPTION s CONNECTION '" . $publisher->connstr . " dbname=postgres' PUBLICATION all_of_it");
$node->wait_for_subscription_sync($publisher, 's');
sub replicated
{
	my ($name, $statements, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$end = sql('SELECT sjoin_test.log_end()');
	$publisher->safe_psql('postgres', $statements);
	$publisher->wait_for_catchup('s');
	is(sql("SELECT sjoin_test.log_text($end)"), $expected, $name);
}
replicated('apply: insert', "INSERT INTO p VALUES (1, 1, " . at(90) . "); INSERT INTO b VALUES (1, 1, " . at(90) . ')', 'b:I p_1:I');
replicated('apply: delete of a live row', 'DELETE FROM p WHERE id = 1', 'p_1:D');
replicated('apply: truncate', 'BEGIN; INSERT INTO p VALUES (2, 2, ' . at(90) . '); TRUNCATE p; INSERT INTO p VALUES (3, 3, ' . at(90) . '); TRUNCATE p_1; TRUNCATE b; COMMIT', 'b:T p_1:ITIT');
replicated('apply: settled', 'INSERT INTO b VALUES (4, 4, ' . at(10) . ')', 'b:I');
replicated('apply: delete of a settled row', 'DELETE FROM b WHERE id = 4', '');
sql('DROP SUBSCRIPTION s');
$publisher->stop;

# All of it goes.
$end = sql('SELECT sjoin_test.log_end()');
captures('DROP of the stream', 'DROP TABLE result CASCADE; DROP TABLE p', '');
$node->stop;
done_testing();
