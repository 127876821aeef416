# Changes of tables, results, the extension and the database while joins run.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Sjoin;

my $node = sjoin_node('ddl');
two_streams($node);
left_join($node);

# The result is an ordinary table: renamed, moved, indexed, dropped.
$node->safe_psql('postgres', q{ALTER TABLE result RENAME TO renamed; CREATE SCHEMA s; ALTER TABLE renamed SET SCHEMA s; CREATE INDEX ON s.renamed (k)});
$node->safe_psql('postgres', 'INSERT INTO a (k, ts) VALUES (1, ' . at(0) . '); INSERT INTO b (k, ts) VALUES (1, ' . at(1) . ')');
wait_and_verify($node, 'renamed', 's.renamed');
is($node->safe_psql('postgres', 'SELECT k FROM s.renamed'), '1', 'a row in the renamed result');
$node->safe_psql('postgres', 'DROP TABLE s.renamed CASCADE');
is($node->safe_psql('postgres', 'SELECT count(*) FROM sjoin.joins'), '0', 'DROP TABLE drops the join');
$node->safe_psql('postgres', 'INSERT INTO a (k, ts) VALUES (2, ' . at(2) . ')');
is($node->safe_psql('postgres', 'SELECT count(*) FROM sjoin.streams'), '2', 'the streams are still there');

# A table or column that a join reads is protected; CASCADE stops the join, the result stays.
left_join($node);
my ($ret, $out, $err) = $node->psql('postgres', 'ALTER TABLE a DROP COLUMN k');
isnt($ret, 0, 'a column that the join needs');
like($err, qr/depend/, 'is protected');
($ret, $out, $err) = $node->psql('postgres', 'DROP TABLE a');
isnt($ret, 0, 'so is the table');
$node->safe_psql('postgres', 'ALTER TABLE a ADD COLUMN extra text; ALTER TABLE a RENAME COLUMN k TO key');
$node->safe_psql('postgres', 'INSERT INTO a (key, ts, extra) VALUES (3, ' . at(3) . q{, 'x')});
wait_and_verify($node, 'renamed column');
$node->safe_psql('postgres', 'DROP TABLE a CASCADE');
$node->poll_query_until('postgres', q{SELECT count(*) = 0 OR bool_and(state = 'stopped') FROM sjoin.joins});
is($node->safe_psql('postgres', 'SELECT count(*) > 0 FROM result'), 't', 'the result stays');
$node->safe_psql('postgres', 'DROP TABLE result; DROP TABLE b CASCADE');

# The extension goes, with its triggers; the tables stay.
two_streams($node);
left_join($node);
$node->safe_psql('postgres', 'INSERT INTO a (k, ts) VALUES (1, ' . at(0) . ')');
wait_and_verify($node, 'before DROP EXTENSION');
$node->safe_psql('postgres', 'DROP EXTENSION sjoin CASCADE');
$node->safe_psql('postgres', 'INSERT INTO a (k, ts) VALUES (2, ' . at(0) . ')');
is($node->safe_psql('postgres', 'SELECT count(*) FROM a'), '2', 'the table is written as before');
$node->safe_psql('postgres', 'DROP TABLE a, b CASCADE; DROP TABLE IF EXISTS result');
$node->safe_psql('postgres', 'CREATE EXTENSION sjoin');
two_streams($node);
left_join($node);
$node->safe_psql('postgres', 'INSERT INTO a (k, ts) VALUES (1, ' . at(0) . '); INSERT INTO b (k, ts) VALUES (1, ' . at(0) . ')');
wait_and_verify($node, 'created again');
is($node->safe_psql('postgres', 'SELECT k FROM result'), '1', 'and joins');

# Databases: a worker does not stand in the way of DROP, RENAME and TEMPLATE.
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION sjoin');
$node->safe_psql('other', q{
	CREATE TABLE a (id int, k int, ts timestamptz); CREATE TABLE b (id int, k int, ts timestamptz);
	SELECT sjoin.create_stream('a', 'ts'), sjoin.create_stream('b', 'ts');
	SELECT sjoin.create_join('result', 'SELECT a.id AS a_id, b.id AS b_id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts')});
is($node->safe_psql('other', q{SELECT sjoin.wait_for('result')}), 't', 'a join in another database');
$node->safe_psql('postgres', 'ALTER DATABASE other RENAME TO another');
ok($node->poll_query_until('another', q{SELECT sjoin.wait_for('result')}), 'renamed database');
$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE another');
ok($node->poll_query_until('another', q{SELECT sjoin.wait_for('result')}), 'copied database');
$node->safe_psql('postgres', 'DROP DATABASE copied');
$node->safe_psql('postgres', 'DROP DATABASE another');
ok(1, 'dropped databases');
wait_and_verify($node, 'the first database');
$node->stop;
done_testing();
