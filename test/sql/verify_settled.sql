-- What verify takes for the trace of settled rows that are gone, and what not.
CREATE SCHEMA verify_settled;
SET search_path = verify_settled;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
CREATE TABLE o (id int, k int, ts timestamptz, v text);
CREATE TABLE p (id int, k int, ts timestamptz, v text);
SELECT sjoin.create_stream('o', 'ts', watermark_delay => '0 s'), sjoin.create_stream('p', 'ts', watermark_delay => '0 s');
CREATE FUNCTION settle(until timestamptz) RETURNS bool LANGUAGE sql AS
    'SELECT sjoin.advance_watermark(''verify_settled.o'', until), sjoin.advance_watermark(''verify_settled.p'', until); SELECT true';
SELECT sjoin.create_join('r', 'SELECT o.id AS oid, p.id AS pid, o.v AS ov, p.v AS pv FROM o LEFT JOIN p ON o.k = p.k AND p.ts BETWEEN o.ts AND o.ts + interval ''5 min''');
SELECT sjoin.create_join('alike', 'SELECT o.k, p.id AS pid FROM o LEFT JOIN p ON o.k = p.k AND p.ts BETWEEN o.ts AND o.ts + interval ''5 min''');
SELECT sjoin.create_join('left_only', 'SELECT o.id AS oid FROM o JOIN p ON o.k = p.k AND p.ts BETWEEN o.ts AND o.ts + interval ''5 min''');
ALTER TABLE r ADD CHECK (pv <> 'bad');
INSERT INTO o VALUES (1, 1, '2024-01-01 10:00', 'a'), (2, 1, '2024-01-01 11:00', 'b'), (3, 1, '2024-01-01 11:00', 'b'), (5, 5, '2024-01-01 12:00', 'e');
INSERT INTO p VALUES (1, 1, '2024-01-01 10:01', 'x'), (2, 1, '2024-01-01 11:01', 'x'), (5, 5, '2024-01-01 12:01', 'bad');
SELECT settle('2024-01-02'), sjoin.wait_for();

-- retention: partners are gone, one of them of a pair that the result had refused
DELETE FROM p WHERE id IN (2, 5);
INSERT INTO o VALUES (4, 1, '2024-01-03 11:00', 'b');
SELECT settle('2024-01-04'), sjoin.wait_for();
SELECT * FROM sjoin.verify('r');
SELECT * FROM sjoin.verify('alike');
SELECT * FROM sjoin.verify('left_only');

-- what somebody does to the result is none of it
DELETE FROM alike WHERE k = 1 AND pid IS NULL;
SELECT * FROM sjoin.verify('alike');
INSERT INTO r VALUES (777, 777, 'zz', 'zz', gen_random_uuid(), 1, now());
DELETE FROM r WHERE oid = 4;
SELECT * FROM sjoin.verify('r') WHERE difference <> 'settled';
INSERT INTO left_only SELECT oid, gen_random_uuid(), 1, now() FROM left_only;
SELECT * FROM sjoin.verify('left_only') WHERE difference <> 'settled';

-- the time zone changes while a condition that depends on it is evaluated: no live row goes unseen
DROP TABLE r, alike, left_only;
TRUNCATE o, p;
CREATE FUNCTION elsewhere() RETURNS bool VOLATILE LANGUAGE sql AS $$ SELECT set_config('timezone', 'America/Los_Angeles', false) IS NOT NULL $$;
SELECT sjoin.create_join('r', 'SELECT o.id AS oid, p.id AS pid FROM o JOIN p ON o.k = p.k AND p.ts BETWEEN o.ts AND o.ts + interval ''5 min''');
INSERT INTO o VALUES (1, 1, '2024-01-10 10:00+00'), (2, 2, '2024-01-10 12:00+00');
INSERT INTO p VALUES (1, 1, '2024-01-10 10:00+00'), (2, 2, '2024-01-10 12:00+00');
SELECT settle('2024-01-10 11:30+00'), sjoin.wait_for();
DELETE FROM o WHERE ts < timestamp '2024-01-10 11:00'::timestamptz AND elsewhere();
SET TimeZone = 'UTC';
SELECT sjoin.wait_for();
SELECT * FROM r, LATERAL (SELECT) x WHERE oid = 2;
SELECT * FROM sjoin.verify('r') WHERE difference <> 'settled';

-- what a transaction makes young and then takes out was settled before, and is gone
DROP TABLE r;
TRUNCATE o, p;
SELECT sjoin.create_join('r', 'SELECT o.id AS oid, p.id AS pid FROM o JOIN p ON o.k = p.k AND p.ts BETWEEN o.ts AND o.ts + interval ''5 min''');
INSERT INTO o SELECT g, g, '2024-01-20 10:00' FROM generate_series(1, 3) g;
INSERT INTO p SELECT g, g, '2024-01-20 10:00' FROM generate_series(1, 3) g;
SELECT settle('2024-01-21'), sjoin.wait_for();
BEGIN;
UPDATE p SET ts = '2024-01-22' WHERE id = 1;
DELETE FROM p WHERE id = 1;
COMMIT;
SELECT * FROM sjoin.verify('r');
BEGIN;
UPDATE o SET ts = '2024-01-22' WHERE id = 2;
TRUNCATE o;
COMMIT;
SELECT * FROM sjoin.verify('r');
DROP SCHEMA verify_settled CASCADE;
