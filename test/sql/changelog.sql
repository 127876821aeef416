-- changelog: every change of the result is a row of its own, numbered, and their replay is the result.
CREATE SCHEMA changelog;
SET search_path = changelog;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;

CREATE TABLE a (id int, k int, ts timestamptz, v int);
CREATE TABLE b (id int, k int, ts timestamptz, v int);
SELECT sjoin.create_stream('a', 'ts', watermark_delay => '0 s'), sjoin.create_stream('b', 'ts', watermark_delay => '0 s');
\set query 'SELECT a.id AS a_id, b.id AS b_id, a.v AS a_v, b.v AS b_v FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''10 s'''
SELECT sjoin.create_join('log', :'query', output_mode => 'changelog');
SELECT sjoin.create_join('log_final', :'query', output_mode => 'changelog', emit => 'final');
SELECT sjoin.create_join('truth', :'query');
SELECT sjoin.create_join('wrong', 'SELECT a.id AS sjoin_op FROM a JOIN b ON a.k = b.k AND a.ts = b.ts', output_mode => 'changelog');
SELECT sjoin.wait_for();
\d log
SELECT join_name, output_mode, emit, allowed_lateness FROM sjoin.joins ORDER BY 1;

-- a pair; then a padded row that a partner within the allowed lateness takes back, and does so in one step
INSERT INTO a VALUES (1, 1, '2024-01-01 10:00:00', 10), (2, 2, '2024-01-01 10:00:00', 20);
INSERT INTO b VALUES (1, 1, '2024-01-01 10:00:01', 11);
SELECT sjoin.advance_watermark('a', '2024-01-01 10:00:11'), sjoin.advance_watermark('b', '2024-01-01 10:00:11');
SELECT sjoin.wait_for();
INSERT INTO b VALUES (2, 2, '2024-01-01 10:00:02', 22);
SELECT sjoin.wait_for();
SELECT sjoin_seq, sjoin_op, a_id, b_id, a_v, b_v, sjoin_version FROM log ORDER BY 1;
SELECT sjoin_seq, sjoin_op, a_id, b_id, a_v, b_v, sjoin_version FROM log_final ORDER BY 1;

-- what a consumer has that adds +I and +U and removes -U and -D, by sjoin_id, is the upsert table
CREATE VIEW replay AS
    SELECT a_id, b_id, a_v, b_v, sjoin_id, sjoin_version
      FROM (SELECT DISTINCT ON (sjoin_id) * FROM log ORDER BY sjoin_id, sjoin_seq DESC) newest WHERE sjoin_op IN ('+I', '+U');
CREATE VIEW differences AS
    SELECT 'missing' AS what, * FROM (SELECT a_id, b_id, a_v, b_v, sjoin_id, sjoin_version FROM truth EXCEPT ALL TABLE replay) x
    UNION ALL SELECT 'extra', * FROM (TABLE replay EXCEPT ALL SELECT a_id, b_id, a_v, b_v, sjoin_id, sjoin_version FROM truth) y;
TABLE differences;
SELECT * FROM sjoin.verify('log');
SELECT * FROM sjoin.verify('log_final');
SELECT * FROM sjoin.verify('truth');

-- followed by number: greater ones come later, none fills a gap
SELECT count(*), min(sjoin_seq) AS first, max(sjoin_seq) AS last FROM log;
INSERT INTO log (sjoin_id, sjoin_version, sjoin_at, sjoin_seq, sjoin_op) VALUES ('00000000-0000-0000-0000-000000000000', 1, '2024-01-01', 100, '+X');
-- rows that are out of line are seen
UPDATE log SET b_v = 23 WHERE sjoin_seq = 4;
SELECT difference, n, row_data FROM sjoin.verify('log') ORDER BY 1;
UPDATE log SET b_v = 22 WHERE sjoin_seq = 4;
SELECT rows_out, rows_retracted FROM sjoin.stat_joins WHERE join_name = 'log';

-- the table is the user's: a trigger, a column of another type
CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER pass BEFORE INSERT ON log FOR EACH ROW EXECUTE FUNCTION pass();
DROP VIEW differences, replay;
ALTER TABLE log ALTER a_v TYPE text, ALTER sjoin_op TYPE varchar(2);
INSERT INTO a VALUES (3, 3, '2024-01-01 10:00:05', 30);
INSERT INTO b VALUES (4, 4, '2024-01-01 10:00:16', 44);
INSERT INTO a VALUES (5, 5, '2024-01-01 10:00:16', 55);
SELECT sjoin.wait_for();
INSERT INTO b VALUES (3, 3, '2024-01-01 10:00:06', 33);
SELECT sjoin.wait_for();
SELECT sjoin_seq, sjoin_op, a_id, b_id, a_v, b_v, sjoin_version FROM log WHERE sjoin_seq > 4 ORDER BY 1;
SELECT * FROM sjoin.verify('log');
DROP SCHEMA changelog CASCADE;
