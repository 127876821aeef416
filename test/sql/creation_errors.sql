-- What create_stream and create_join refuse, and what they say.
CREATE SCHEMA creation_errors;
SET search_path = creation_errors;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;
\set SHOW_CONTEXT never

CREATE TABLE a (id int, k int, ts timestamptz, v int);
CREATE TABLE b (id int, k int, ts timestamptz, v int);
CREATE TABLE c (id int, k int, ts timestamptz, v int);
CREATE TABLE no_time (id int, k int);
CREATE TABLE text_time (id int, k int, ts text, d date);
CREATE TABLE plain_time (id int, k int, ts timestamp);
CREATE TABLE keys (p point, m money, j json, x xml, c1 text COLLATE "C", c2 text COLLATE "POSIX", ts timestamptz);
CREATE VIEW a_view AS SELECT * FROM a;
CREATE MATERIALIZED VIEW a_copy AS SELECT * FROM a;
CREATE TEMPORARY TABLE a_temp (id int, k int, ts timestamptz);
CREATE UNLOGGED TABLE a_unlogged (id int, k int, ts timestamptz);
CREATE FOREIGN DATA WRAPPER nothing;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing;
CREATE FOREIGN TABLE a_foreign (id int, k int, ts timestamptz) SERVER nowhere;
CREATE FUNCTION unknown_answer(int) RETURNS int LANGUAGE sql STABLE AS 'SELECT $1';

-- streams
SELECT sjoin.create_stream('no_time', 'ts');
SELECT sjoin.create_stream('text_time', 'ts');
SELECT sjoin.create_stream('text_time', 'd');
SELECT sjoin.create_stream('a', 'nothing');
SELECT sjoin.create_stream('a', NULL);
SELECT sjoin.create_stream(NULL, 'ts');
SELECT sjoin.create_stream('a_view', 'ts');
SELECT sjoin.create_stream('a_copy', 'ts');
SELECT sjoin.create_stream('a_temp', 'ts');
SELECT sjoin.create_stream('a_unlogged', 'ts');
SELECT sjoin.create_stream('a_foreign', 'ts');
SELECT sjoin.create_stream('pg_class', 'ts');
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '-1 s');
SELECT sjoin.create_stream('a', 'ts', on_idle => 'sleep');
SELECT sjoin.create_stream('a', 'ts');
SELECT sjoin.create_stream('a', 'ts');
SELECT sjoin.create_stream('a', 'ts', if_not_exists => true);
SELECT sjoin.create_stream('b', 'ts');
SELECT FROM sjoin.create_stream('keys', 'ts');
SELECT FROM sjoin.create_stream('plain_time', 'ts');

-- the query
CREATE FUNCTION try(query text, options text DEFAULT '') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT sjoin.create_join(%L, %L%s)', 'result', query, options);
    RAISE EXCEPTION 'not refused';
END $$;
SELECT try('SELECT a.id FROM a JOIN b ON a.v < b.v AND b.ts BETWEEN a.ts AND a.ts + interval ''1 min''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND b.ts >= a.ts');
SELECT try('SELECT a.id FROM a, b');
SELECT try('SELECT a.id FROM a');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts JOIN c ON c.k = a.k AND c.ts = a.ts');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts UNION ALL SELECT 1');
SELECT try('SELECT DISTINCT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts LIMIT 1');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts ORDER BY 1');
SELECT try('SELECT count(*) FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts GROUP BY 1');
SELECT try('SELECT row_number() OVER () FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT try('SELECT a.id, random() AS x FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT try('SELECT unknown_answer(a.id) AS x FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts WHERE a.id IN (SELECT id FROM c)');
SELECT try('WITH w AS (SELECT * FROM b) SELECT a.id FROM a JOIN w ON a.k = w.k AND a.ts = w.ts');
SELECT try('SELECT a.id FROM a JOIN (SELECT * FROM b) b ON a.k = b.k AND a.ts = b.ts');
SELECT try('SELECT a.id FROM a JOIN generate_series(1, 3) g ON a.k = g');
SELECT try('SELECT a.id FROM a FULL JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT try('SELECT a.id FROM a JOIN a_view b ON a.k = b.k AND a.ts = b.ts');
SELECT try('SELECT a.id FROM a JOIN a_copy b ON a.k = b.k AND a.ts = b.ts');
SELECT try('SELECT a.id FROM a JOIN a_temp b ON a.k = b.k AND a.ts = b.ts');
SELECT try('SELECT a.id FROM a JOIN a_foreign b ON a.k = b.k AND a.ts = b.ts');
SELECT try('SELECT a.id FROM a JOIN pg_class b ON a.k = b.relpages', ', ttl => ''1 min''');
SELECT try('SELECT a.id FROM a JOIN plain_time b ON a.k = b.k AND a.ts = b.ts');
SELECT try('SELECT a.id FROM a JOIN no_time b ON a.k = b.k', ', ttl => ''1 min''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts + interval ''5 min'' AND a.ts + interval ''1 min''');
SELECT try('SELECT a.m FROM keys a JOIN keys b ON a.m = b.m AND b.ts BETWEEN a.ts AND a.ts + interval ''1 min''');
SELECT try('SELECT a.ts FROM keys a JOIN keys b ON a.p ~= b.p AND b.ts BETWEEN a.ts AND a.ts + interval ''1 min''');
SELECT try('SELECT a.ts FROM keys a JOIN keys b ON a.j = b.j AND a.ts = b.ts');
SELECT try('SELECT a.ts FROM keys a JOIN keys b ON a.p <-> b.p = 0 AND b.ts BETWEEN a.ts AND a.ts + interval ''1 min''');
SELECT try('SELECT a.ts FROM keys a JOIN keys b ON a.c1 = b.c2 AND a.ts = b.ts');
SELECT try('SELECT a.id, b.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT try('DELETE FROM a');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts; SELECT 1');
SELECT try('SELECT FROM WHERE');
SELECT try('SELECT a.id FROM a JOIN nowhere b ON a.k = b.k');
SELECT try(NULL);

-- options
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', ', output_mode => ''replace''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', ', emit => ''never''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', ', late_rows => ''ignore''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k', ', ttl => ''-1 min''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k', ', ttl => ''1 min'', timeout => ''2 min''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k', ', side_ttl => ''{"z": "1 min"}''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k', ', side_ttl => ''{"a": "soon", "b": "1 min"}''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k', ', side_ttl => ''{"a": "1 min"}''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', ', allowed_lateness => ''-1 s''');

SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', ', timeout => ''1 min''');
SELECT try('SELECT a.id FROM a LEFT JOIN b ON a.k = b.k', ', ttl => ''1 min'', timeout => ''2 min''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k', ', ttl => ''0 s''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k', ', side_ttl => ''[1]''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', ', matching => ''none''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', ', parallelism => 0');

-- what this release does not know yet is refused, not ignored
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', ', emit => ''eager''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', ', lookups => ''{c}''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', ', max_rows_per_key => 5');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', ', matching => ''one_to_one''');
SELECT try('SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', ', parallelism => 2');

-- names and rights
CREATE TABLE taken (x int);
SELECT sjoin.create_join('taken', 'SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT sjoin.create_join('', 'SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT sjoin.create_join('nowhere.result', 'SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT sjoin.create_join('result', 'SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT sjoin.create_join('result', 'SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT sjoin.create_join('result', 'SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', if_not_exists => true);
SELECT sjoin.create_join('other', 'SELECT a.id FROM result a JOIN b ON a.id = b.k', ttl => '1 min');
SELECT sjoin.create_stream('result', 'sjoin_at');
SELECT sjoin.drop_stream('a');
SELECT sjoin.drop_stream('c');
SELECT sjoin.drop_join('taken');
SELECT sjoin.drop_join('no_such_join');
SELECT sjoin.drop_join('no_such_join', if_exists => true);
SELECT sjoin.wait_for('taken');
SELECT sjoin.advance_watermark('c');

CREATE ROLE sjoin_regress_stranger;
GRANT USAGE ON SCHEMA creation_errors TO sjoin_regress_stranger;
GRANT CREATE ON SCHEMA creation_errors TO sjoin_regress_stranger;
GRANT SELECT ON b TO sjoin_regress_stranger;
SET ROLE sjoin_regress_stranger;
SELECT sjoin.create_stream('c', 'ts');
SELECT sjoin.advance_watermark('a', '2024-01-01');
SELECT sjoin.create_join('mine', 'SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
SELECT sjoin.drop_join('result');
SELECT sjoin.drop_stream('b', cascade => true);
RESET ROLE;
REVOKE CREATE ON SCHEMA creation_errors FROM sjoin_regress_stranger;
GRANT SELECT ON a TO sjoin_regress_stranger;
SET ROLE sjoin_regress_stranger;
SELECT sjoin.create_join('creation_errors.mine', 'SELECT a.id FROM a JOIN b ON a.k = b.k AND a.ts = b.ts');
RESET ROLE;

-- nothing was left behind
SELECT stream FROM sjoin.streams WHERE stream::text !~ '^(a|b|keys|plain_time)$';
SELECT join_name FROM sjoin.joins;
SELECT * FROM sjoin.verify('result');
DROP SCHEMA creation_errors CASCADE;
DROP FOREIGN DATA WRAPPER nothing CASCADE;
DROP ROLE sjoin_regress_stranger;
