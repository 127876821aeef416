-- changelog: updates and deletes of the streams are -U and +U, -D; the replay is the upsert table, versions included.
CREATE SCHEMA changelog_changes;
SET search_path = changelog_changes;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;

CREATE TABLE a (id int PRIMARY KEY, k int, ts timestamptz, v int, other int);
CREATE TABLE b (id int PRIMARY KEY, k int, ts timestamptz, v int);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s'), sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
\set query 'SELECT a.id AS a_id, b.id AS b_id, a.v AS a_v, b.v AS b_v FROM a LEFT JOIN b ON a.k = b.k AND a.other >= 0 AND b.ts BETWEEN a.ts AND a.ts + interval ''10 s'''
SELECT sjoin.create_join('log', :'query', output_mode => 'changelog');
SELECT sjoin.create_join('truth', :'query');
SELECT sjoin.wait_for();
CREATE VIEW replay AS
    SELECT a_id, b_id, a_v, b_v, sjoin_id, sjoin_version
      FROM (SELECT DISTINCT ON (sjoin_id) * FROM log ORDER BY sjoin_id, sjoin_seq DESC) newest WHERE sjoin_op IN ('+I', '+U');
CREATE VIEW differences AS
    SELECT 'missing' AS what, * FROM (SELECT a_id, b_id, a_v, b_v, sjoin_id, sjoin_version FROM truth EXCEPT ALL TABLE replay) x
    UNION ALL SELECT 'extra', * FROM (TABLE replay EXCEPT ALL SELECT a_id, b_id, a_v, b_v, sjoin_id, sjoin_version FROM truth) y;
CREATE TABLE seen (seq bigint);
INSERT INTO seen VALUES (0);
-- the rows since the last look
CREATE FUNCTION look() RETURNS TABLE (op text, a_id int, b_id int, a_v int, b_v int, version int) LANGUAGE plpgsql AS $$
BEGIN
    IF NOT sjoin.wait_for() THEN RAISE 'wait_for returned false'; END IF;
    RETURN QUERY SELECT l.sjoin_op, l.a_id, l.b_id, l.a_v, l.b_v, l.sjoin_version FROM log l, seen s WHERE l.sjoin_seq > s.seq ORDER BY l.sjoin_seq;
    UPDATE seen SET seq = (SELECT max(sjoin_seq) FROM log);
END $$;

INSERT INTO a VALUES (1, 1, '2024-01-01 10:00:00', 10, 0), (2, 2, '2024-01-01 10:00:00', 20, 0);
INSERT INTO b VALUES (1, 1, '2024-01-01 10:00:01', 11), (2, 1, '2024-01-01 10:00:02', 12);
SELECT * FROM look();
-- one row of a is two of the result; then twice in a transaction: its net effect; a column that the result does not have
UPDATE a SET v = 100 WHERE id = 1;
SELECT * FROM look();
BEGIN;
UPDATE b SET v = 111 WHERE id = 1;
UPDATE b SET v = 112 WHERE id = 1;
COMMIT;
SELECT * FROM look();
UPDATE a SET other = 1 WHERE id = 1;
SELECT * FROM look();
-- there and back in one transaction
BEGIN;
UPDATE b SET v = 0 WHERE id = 2;
UPDATE b SET v = 12 WHERE id = 2;
COMMIT;
SELECT * FROM look();
-- to another key: the row goes, and comes back as version 1
UPDATE b SET k = 7 WHERE id = 2;
SELECT * FROM look();
UPDATE b SET k = 1 WHERE id = 2;
SELECT * FROM look();
-- padded, taken back, padded again: identities of their own, in one step each
SELECT sjoin.advance_watermark('a', '2024-01-01 10:00:10.000001'), sjoin.advance_watermark('b', '2024-01-01 10:00:10.000001');
SELECT * FROM look();
INSERT INTO b VALUES (3, 2, '2024-01-01 10:00:03', 23);
SELECT * FROM look();
DELETE FROM b WHERE id = 3;
SELECT * FROM look();
UPDATE a SET v = 21 WHERE id = 2;
SELECT * FROM look();
TRUNCATE b;
SELECT * FROM look();
SELECT count(*), count(*) = max(sjoin_seq) AS dense FROM log;
TABLE differences;
SELECT * FROM sjoin.verify('log');
SELECT * FROM sjoin.verify('truth');
SELECT rows_out, rows_retracted FROM sjoin.stat_joins WHERE join_name = 'log';
-- settled: nothing is written any more
SELECT sjoin.advance_watermark('a', '2024-01-02'), sjoin.advance_watermark('b', '2024-01-02');
DELETE FROM a;
SELECT * FROM look();
SELECT difference FROM sjoin.verify('log') WHERE difference <> 'settled';
DROP SCHEMA changelog_changes CASCADE;
