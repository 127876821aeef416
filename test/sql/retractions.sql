-- What is taken back from a changelog repeats the values that were written, whatever they would be now.
CREATE SCHEMA retractions;
SET search_path = retractions;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
CREATE TABLE customers (id int PRIMARY KEY, name text);
INSERT INTO customers VALUES (1, 'Ada'), (2, 'Bea');
CREATE FUNCTION vat(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 19 / 100';
CREATE TABLE orders (id int PRIMARY KEY, customer int, amount int, ts timestamptz);
CREATE TABLE payments (id int PRIMARY KEY, order_id int, ts timestamptz);
SELECT sjoin.create_stream('orders', 'ts', watermark_delay => '0 s'), sjoin.create_stream('payments', 'ts', watermark_delay => '0 s');
\set query 'SELECT o.id, p.id AS pay, retractions.vat(o.amount) AS vat, (SELECT name FROM retractions.customers c WHERE c.id = o.customer) AS name FROM orders o LEFT JOIN payments p ON p.order_id = o.id AND p.ts BETWEEN o.ts AND o.ts + interval ''1 h'''
SELECT sjoin.create_join('log', :'query', output_mode => 'changelog');
SELECT sjoin.create_join('truth', :'query');
INSERT INTO orders VALUES (1, 1, 100, '2024-01-01 10:00'), (2, 2, 200, '2024-01-01 10:00'), (3, 1, 300, '2024-01-01 10:00');
INSERT INTO payments VALUES (1, 1, '2024-01-01 10:10'), (2, 2, '2024-01-01 10:10'), (3, 3, '2024-01-01 10:10');
SELECT sjoin.wait_for();
SELECT id, pay, vat, name, sjoin_version AS version FROM truth ORDER BY 1, 2;

-- another name, and another law
UPDATE customers SET name = name || ' II';
CREATE OR REPLACE FUNCTION vat(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 7 / 100';
SELECT pg_terminate_backend(pid) FROM sjoin.stat_workers WHERE datname = current_database();
DELETE FROM payments WHERE id = 1;
UPDATE orders SET amount = 1000 WHERE id = 2;
DELETE FROM orders WHERE id = 3;
SELECT sjoin.wait_for();
SELECT id, pay, vat, name, sjoin_version AS version, sjoin_op AS op FROM log WHERE sjoin_seq > 3 ORDER BY sjoin_seq;
SELECT id, pay, vat, name, sjoin_version AS version FROM truth ORDER BY 1, 2;

-- the replay is the upsert table
CREATE VIEW replay AS
    SELECT id, pay, vat, name, sjoin_id, sjoin_version
      FROM (SELECT DISTINCT ON (sjoin_id) * FROM log ORDER BY sjoin_id, sjoin_seq DESC) newest WHERE sjoin_op IN ('+I', '+U');
(TABLE replay EXCEPT ALL SELECT id, pay, vat, name, sjoin_id, sjoin_version FROM truth)
UNION ALL (SELECT id, pay, vat, name, sjoin_id, sjoin_version FROM truth EXCEPT ALL TABLE replay);
SELECT * FROM sjoin.verify('log') UNION ALL SELECT * FROM sjoin.verify('truth');
DROP SCHEMA retractions CASCADE;
