-- Constraints and columns of the user's on an upsert result that follows updates and deletes: what is refused is recorded, the rest is written.
CREATE SCHEMA result_constraints;
SET search_path = result_constraints;
SET client_min_messages = warning;
SET TimeZone = 'UTC';

CREATE TABLE orders (order_id int, ts timestamptz, v int);
CREATE TABLE payments (pay_id int, order_id int, ts timestamptz, v int);
SELECT sjoin.create_stream('orders', 'ts', watermark_delay => '0 s'), sjoin.create_stream('payments', 'ts', watermark_delay => '0 s');
CREATE FUNCTION make_join(name text) RETURNS void LANGUAGE sql AS $$
    SELECT sjoin.create_join('result_constraints.' || name, 'SELECT o.order_id, p.pay_id, o.v AS order_v, p.v AS pay_v
          FROM orders o JOIN payments p ON p.order_id = o.order_id AND p.ts BETWEEN o.ts AND o.ts + interval ''1 hour''') $$;
SELECT make_join('r'), make_join('uniq'), make_join('refs'), make_join('part'), make_join('cols');
SELECT sjoin.wait_for();

-- SJ-033: an identity of its own, whatever key the user puts on the table
ALTER TABLE uniq ADD CONSTRAINT one_payment UNIQUE (order_id);
CREATE TABLE names (order_id int PRIMARY KEY);
INSERT INTO names SELECT generate_series(1, 5);
ALTER TABLE refs ADD CONSTRAINT known_order FOREIGN KEY (order_id) REFERENCES names;
CREATE TABLE notes (id uuid CONSTRAINT noted REFERENCES refs);
CREATE TABLE all_parts (LIKE part) PARTITION BY RANGE (order_id);
ALTER TABLE all_parts ATTACH PARTITION part FOR VALUES FROM (1) TO (5);
ALTER TABLE cols ADD total int GENERATED ALWAYS AS (order_v + pay_v) STORED, ADD note text DEFAULT 'none', ALTER pay_v TYPE bigint;
ALTER TABLE cols RENAME pay_id TO "the payment";
CREATE FUNCTION look(name regclass) RETURNS TABLE (order_id int, pay_id int, order_v int, pay_v bigint, version int) LANGUAGE plpgsql AS $$
BEGIN
    IF NOT sjoin.wait_for(name) THEN RAISE 'wait_for returned false'; END IF;
    RETURN QUERY EXECUTE format('SELECT * FROM (SELECT * FROM %s) x(a, b, c, d, e) ORDER BY 1, 2',
        (SELECT format('(SELECT %s FROM %s) y', string_agg(CASE attnum WHEN 4 THEN quote_ident(attname) || '::bigint' ELSE quote_ident(attname) END, ', ' ORDER BY attnum), name)
           FROM pg_attribute WHERE attrelid = name AND attnum IN (1, 2, 3, 4, 6)));
END $$;
CREATE VIEW refused AS
    SELECT result, sqlstate, substring(message from '"(\w+)"$') AS name, row_data->'left'->>'order_id' AS order_id, row_data->'right'->>'pay_id' AS pay_id
      FROM sjoin.late_rows ORDER BY result, late_id;

INSERT INTO orders SELECT i, '2024-01-01 10:00', i FROM generate_series(1, 6) i;
INSERT INTO payments SELECT i, i, '2024-01-01 10:00', i FROM generate_series(1, 6) i;
INSERT INTO payments VALUES (7, 1, '2024-01-01 10:00', 7);
SELECT sjoin.wait_for();
INSERT INTO notes SELECT sjoin_id FROM refs WHERE order_id IN (1, 2) AND pay_id < 7;
UPDATE cols SET note = 'mine';
SELECT * FROM look('r');
SELECT * FROM look('uniq');
SELECT * FROM look('refs');
SELECT * FROM look('part');
SELECT sjoin.wait_for();
SELECT * FROM refused;
SELECT name, verify.* FROM unnest('{r, uniq, refs, part, cols}'::regclass[]) name, sjoin.verify(name);

-- two payments for an order, the first is deleted, the second's number changes; the keys of two rows are swapped, on both sides
BEGIN;
DELETE FROM payments WHERE pay_id = 1;
UPDATE payments SET pay_id = 8 WHERE pay_id = 7;
COMMIT;
BEGIN;
UPDATE payments SET order_id = 7 - order_id WHERE order_id IN (3, 4);
UPDATE orders SET order_id = 7 - order_id WHERE order_id IN (3, 4);
COMMIT;
SELECT * FROM look('r');
SELECT * FROM look('uniq');
SELECT sjoin.wait_for();
SELECT * FROM refused;
SELECT name, verify.* FROM unnest('{r, uniq, part, cols}'::regclass[]) name, sjoin.verify(name);

-- the swapped rows are new ones if they were written in two batches
UPDATE cols SET note = 'mine';
-- a row that notes refer to cannot be deleted; the rest of the transaction is followed
BEGIN;
DELETE FROM orders WHERE order_id IN (2, 5);
UPDATE orders SET v = 40 WHERE order_id = 4;
COMMIT;
SELECT * FROM look('refs');
SELECT sjoin.wait_for();
SELECT * FROM refused WHERE result = 'refs';
SELECT * FROM look('part');
SELECT "the payment", order_v, pay_v, total, note FROM cols ORDER BY 1;
SELECT name, verify.* FROM unnest('{r, uniq, part, cols}'::regclass[]) name, sjoin.verify(name);
SELECT join_name, state FROM sjoin.joins ORDER BY 1;
DROP SCHEMA result_constraints CASCADE;
