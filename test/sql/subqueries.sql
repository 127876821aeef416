-- Sub-queries in the target list: read when a row is written, and not followed afterwards.
CREATE SCHEMA subqueries;
SET search_path = subqueries;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;
CREATE TABLE orders (id int, customer int, tags text[], at timestamptz);
CREATE TABLE payments (order_id int, amount int, at timestamptz);
CREATE TABLE customers (id int, name text, since timestamptz);
CREATE TABLE limits (id int, amount int);
CREATE VIEW names AS SELECT id, upper(name) AS name FROM customers;
INSERT INTO customers VALUES (1, 'ann', '2020-01-01'), (2, 'bob', '2021-01-01');
INSERT INTO limits VALUES (1, 100), (2, 200), (2, 300);
SELECT sjoin.create_stream('orders', 'at', watermark_delay => '0 s');
SELECT sjoin.create_stream('payments', 'at', watermark_delay => '0 s');

-- of every kind, for pairs and padded rows
SELECT sjoin.create_join('wide', $$
    SELECT o.id, p.amount,
           (SELECT c.name FROM customers c WHERE c.id = o.customer) AS customer,
           (SELECT max(l.amount) FROM limits l WHERE l.id = o.customer AND l.amount >= p.amount) AS free,
           EXISTS (SELECT FROM limits l WHERE l.amount < p.amount + o.id) AS over,
           o.customer IN (SELECT id FROM customers) AS known,
           (o.customer, p.amount) = ANY (SELECT id, amount FROM limits) AS exact,
           p.amount > ALL (SELECT l.amount FROM limits l WHERE l.id = o.customer) AS above_all,
           ARRAY(SELECT n.name FROM names n WHERE n.id <= o.customer ORDER BY 1) AS names,
           (SELECT count(*) FROM customers c WHERE EXISTS (SELECT FROM limits l
                WHERE l.id = c.id AND l.amount > (SELECT max(v) FROM (VALUES (o.id), (p.amount)) x(v)))) AS nested,
           CASE WHEN p IS NULL THEN 'none' ELSE (SELECT 'some') END AS cased,
           (SELECT string_agg(t, '+' ORDER BY t) FROM unnest(o.tags) t) AS tags,
           ARRAY(SELECT g * p.amount FROM generate_series(1, o.id) g) AS series,
           (SELECT to_json(q) FROM (SELECT p, o.id) q) AS both_rows,
           (SELECT p) AS payment
      FROM orders o LEFT JOIN payments p ON p.order_id = o.id AND p.at BETWEEN o.at AND o.at + interval '5 minutes'
$$);
SET client_min_messages = warning;
INSERT INTO orders VALUES (1, 1, '{b,a}', '2024-01-01 10:00'), (2, 2, NULL, '2024-01-01 10:01'), (3, 3, '{}', '2024-01-01 10:02');
INSERT INTO payments VALUES (1, 100, '2024-01-01 10:03'), (2, 250, '2024-01-01 10:03'), (1, 50, '2024-01-01 10:04');
SELECT sjoin.wait_for('wide');
SELECT sjoin.advance_watermark('orders', '2024-01-01 10:08'), sjoin.advance_watermark('payments', '2024-01-01 10:08');
SELECT sjoin.wait_for('wide');
SELECT id, amount, key, value FROM wide w, jsonb_each_text(to_jsonb(w)) WHERE key NOT LIKE 'sjoin%' AND key NOT IN ('id', 'amount') ORDER BY id, amount, key;
SELECT * FROM sjoin.verify('wide');

-- a partner that comes after the deadline corrects a padded row
INSERT INTO payments VALUES (3, 7, '2024-01-01 10:05');
SELECT sjoin.wait_for('wide');
SELECT id, amount, customer, nested, cased, series, both_rows, payment FROM wide WHERE id = 3;
SELECT * FROM sjoin.verify('wide');

-- the columns that read no table are compared; the others are not
UPDATE wide SET tags = 'x', customer = 'y' WHERE amount = 100;
SELECT difference, n, row_data->'id' AS id, row_data->'tags' AS tags, row_data->'customer' AS customer FROM sjoin.verify('wide') ORDER BY 1;
DROP TABLE wide;

-- read when written: what changes later is not followed
SELECT sjoin.create_join('named', $$
    SELECT o.id, p.amount, (SELECT c.name FROM customers c WHERE c.id = o.customer) AS customer
      FROM orders o JOIN payments p ON p.order_id = o.id AND p.at BETWEEN o.at AND o.at + interval '5 minutes'
$$, output_mode => 'append');
SELECT sjoin.wait_for('named');
UPDATE customers SET name = 'anna' WHERE id = 1;
BEGIN;
INSERT INTO customers VALUES (4, 'dan');
INSERT INTO orders VALUES (4, 1, NULL, '2024-01-01 11:00'), (5, 4, NULL, '2024-01-01 11:00');
INSERT INTO payments VALUES (4, 1, '2024-01-01 11:00'), (5, 1, '2024-01-01 11:00');
COMMIT;
SELECT sjoin.wait_for('named');
SELECT id, amount, customer FROM named ORDER BY id, amount;
SELECT * FROM sjoin.verify('named');

-- after a restart of the worker the state is there and the sub-queries run
SELECT count(pg_terminate_backend(pid)) FROM sjoin.stat_workers WHERE datname = current_database();
INSERT INTO payments VALUES (4, 2, '2024-01-01 11:01');
SELECT sjoin.wait_for('named');
SELECT id, amount, customer FROM named WHERE id = 4 ORDER BY id, amount;
SELECT * FROM sjoin.verify('named');

-- one row fails: it is recorded, the others are written; by a statement and directly
INSERT INTO customers VALUES (5, 'eve'), (5, 'eva');
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
INSERT INTO orders SELECT i, CASE i WHEN 13 THEN 5 ELSE 1 END, NULL, '2024-01-01 11:02' FROM generate_series(11, 15) i;
INSERT INTO payments SELECT i, 0, '2024-01-01 11:02' FROM generate_series(11, 15) i;
SELECT sjoin.wait_for('named');
CREATE TRIGGER nothing BEFORE INSERT ON named FOR EACH ROW EXECUTE FUNCTION nothing();
INSERT INTO orders SELECT i, CASE i WHEN 16 THEN 5 ELSE 1 END, NULL, '2024-01-01 11:03' FROM generate_series(16, 18) i;
INSERT INTO payments SELECT i, 0, '2024-01-01 11:03' FROM generate_series(16, 18) i;
SELECT sjoin.wait_for('named');
SELECT id, customer FROM named WHERE id > 10 ORDER BY id;
SELECT reason, sqlstate, message, row_data#>>'{left,id}' AS id FROM sjoin.late_rows WHERE result = 'named'::regclass::text ORDER BY 4;
SELECT * FROM sjoin.verify('named');
SELECT sjoin_seq, count(*) FROM named GROUP BY 1 HAVING count(*) > 1;

-- a sub-query reads an input itself, and a function without a table; a condition on joined rows comes first
CREATE FUNCTION twice(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN 2 * i; END';
SELECT sjoin.create_join('counted', $$
    SELECT o.id, p.amount, (SELECT count(*) FROM payments x WHERE x.order_id = o.id) AS payments,
           (SELECT sum(twice(g)) FROM generate_series(1, p.amount) g) AS total,
           (SELECT 100 / p.amount) AS share
      FROM orders o LEFT JOIN payments p ON p.order_id = o.id AND p.at = o.at
     WHERE p.amount <> 0 OR (p.amount IS NULL AND o.id < 3) $$);
SELECT sjoin.wait_for('counted');
SELECT id, amount, payments, total, share FROM counted ORDER BY 1, 2;
SELECT * FROM sjoin.verify('counted');
\pset format unaligned
\pset tuples_only on
SELECT line FROM sjoin.explain($$
    SELECT o.id, (SELECT count(*) FROM payments x WHERE x.order_id = o.id) AS payments, ARRAY(SELECT unnest(o.tags)) AS tags
      FROM orders o JOIN payments p ON p.order_id = o.id AND p.at = o.at $$) line WHERE line LIKE '%sub-quer%';
\pset tuples_only off
\pset format aligned

-- rights: those of the owner, policies and all; a view has its owner's
CREATE ROLE sjoin_regress_subqueries;
GRANT USAGE, CREATE ON SCHEMA subqueries TO sjoin_regress_subqueries;
GRANT SELECT ON orders, payments, names TO sjoin_regress_subqueries;
SET ROLE sjoin_regress_subqueries;
SELECT sjoin.create_join('mine', $$
    SELECT o.id, (SELECT c.name FROM customers c WHERE c.id = o.customer) AS customer
      FROM orders o JOIN payments p ON p.order_id = o.id AND p.at = o.at $$);
SELECT * FROM sjoin.explain($$
    SELECT o.id, ARRAY(SELECT (SELECT max(c.name) FROM customers c) FROM names) AS customer
      FROM orders o JOIN payments p ON p.order_id = o.id AND p.at = o.at $$);
RESET ROLE;
GRANT SELECT (id, name) ON customers TO sjoin_regress_subqueries;
ALTER TABLE customers ENABLE ROW LEVEL SECURITY;
CREATE POLICY short ON customers TO sjoin_regress_subqueries USING (id < 4);
SET ROLE sjoin_regress_subqueries;
SELECT sjoin.create_join('mine', $$
    SELECT o.id, (SELECT c.name FROM customers c WHERE c.id = o.customer) AS customer,
           (SELECT n.name FROM names n WHERE n.id = o.customer) AS name
      FROM orders o JOIN payments p ON p.order_id = o.id AND p.at = o.at AND p.amount = 1 $$);
SELECT sjoin.wait_for('mine');
SELECT id, customer, name FROM mine ORDER BY 1;
SELECT * FROM sjoin.verify('mine');
RESET ROLE;

-- what cannot be
CREATE TEMP TABLE passing (id int);
CREATE VIEW pg_temp.passing_view AS SELECT * FROM passing;
CREATE SEQUENCE numbers;
CREATE FUNCTION now_and_then(i int, x float8 DEFAULT random()) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT i * x';
CREATE FUNCTION try(target text, condition text DEFAULT 'true', filter text DEFAULT 'true') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sjoin.create_join('tried', format('SELECT o.id, %s AS x FROM orders o LEFT JOIN payments p ON p.order_id = o.id AND p.at = o.at AND %s WHERE %s',
                                              target, condition, filter));
END $$;
\set VERBOSITY terse
SELECT try('1', 'p.amount IN (SELECT id FROM limits)');
SELECT try('1', 'EXISTS (SELECT FROM limits l WHERE l.id = o.id)');
SELECT try('1', 'true', 'o.id = (SELECT max(id) FROM limits)');
SELECT try('1', 'o.at > p.at - (SELECT interval ''1 minute'')');
SELECT try('(SELECT random())');
SELECT try('(SELECT l.id FROM limits l ORDER BY random() LIMIT 1)');
SELECT try('(SELECT x FROM (SELECT nextval(''numbers'') AS x) q)');
SELECT try('(SELECT x FROM generate_series(1, random()::int) x LIMIT 1)');
SELECT try('(WITH x AS (SELECT clock_timestamp() AS t) SELECT t FROM x)');
SELECT try('(SELECT now_and_then(o.id))');
SELECT try('now_and_then(o.id)');
SELECT try('(SELECT id FROM limits WHERE id = o.id FOR UPDATE)');
SELECT try('(SELECT id FROM (SELECT id FROM limits FOR SHARE) l WHERE id = o.id)');
SELECT try('(WITH gone AS (DELETE FROM limits RETURNING id) SELECT max(id) FROM gone)');
SELECT try('(SELECT max(id) FROM passing)');
SELECT try('(SELECT max(id) FROM passing_view)');
SELECT try('(SELECT o.ctid)');
SELECT try('(SELECT max(o.id) FROM limits)');
SELECT try('(SELECT 1 / 0)');
SELECT try('(SELECT l.id, l.amount FROM limits l)');
SELECT try('(SELECT generate_series(1, 3) LIMIT 1) + generate_series(1, 3)');
SELECT try('(SELECT row(l.id) FROM limits l LIMIT 1)');
SELECT try('(SELECT l.ctid FROM limits l LIMIT 1)');
DROP TABLE tried;
\set VERBOSITY default

-- names may change, the meaning may not
ALTER TABLE customers RENAME name TO called;
ALTER TABLE customers DROP since;
ALTER TABLE customers RENAME TO clients;
INSERT INTO payments VALUES (5, 2, '2024-01-01 11:04');
SELECT sjoin.wait_for('named');
SELECT customer FROM named WHERE id = 5 AND amount = 2;
SELECT pg_get_viewdef('named_query') AS definition \gset
CREATE OR REPLACE VIEW named_query AS :definition
INSERT INTO payments VALUES (5, 3, '2024-01-01 11:04');
SELECT sjoin.wait_for('named');
SELECT customer FROM named WHERE id = 5 AND amount = 3;
SELECT * FROM sjoin.verify('named');
CREATE OR REPLACE VIEW mine_query AS
    SELECT o.id, (SELECT c.called FROM clients c WHERE c.id = o.customer + 1) AS customer,
           (SELECT n.name FROM names n WHERE n.id = o.customer) AS name
      FROM orders o JOIN payments p ON p.order_id = o.id AND p.at = o.at AND p.amount = 1;
SELECT sjoin.wait_for('mine');
SELECT state, last_error FROM sjoin.joins WHERE join_name::text = 'mine';

-- what a sub-query uses cannot go unnoticed
DROP FUNCTION twice;
DROP FUNCTION twice CASCADE;
DROP TABLE clients CASCADE;
INSERT INTO payments VALUES (4, 4, '2024-01-01 11:00');
SELECT sjoin.wait_for('named'), sjoin.wait_for('counted');
SELECT join_name, state, last_error FROM sjoin.joins WHERE join_name::text IN ('named', 'counted') ORDER BY 1;
DROP SCHEMA subqueries CASCADE;
DROP ROLE sjoin_regress_subqueries;
