\set QUIET on
SET client_min_messages = warning;
CREATE TABLE orders (order_id text PRIMARY KEY, amount numeric, created_at timestamptz);
CREATE TABLE payments (order_id text, pay_amount numeric, status text, paid_at timestamptz);
SELECT sjoin.create_stream('orders', 'created_at'), sjoin.create_stream('payments', 'paid_at');

SELECT sjoin.create_join('paid', $$
    SELECT o.order_id, o.amount, p.pay_amount, p.status
      FROM orders o
      JOIN payments p ON p.order_id = o.order_id
       AND p.paid_at BETWEEN o.created_at - interval '5 minutes' AND o.created_at + interval '5 minutes' $$);

SELECT sjoin.create_join('paid_or_not', $$
    SELECT o.order_id, o.amount, p.pay_amount, p.status
      FROM orders o
      LEFT JOIN payments p ON p.order_id = o.order_id
       AND p.paid_at BETWEEN o.created_at - interval '5 minutes' AND o.created_at + interval '5 minutes' $$);

\echo
\echo -- event times come as milliseconds since 1970
INSERT INTO orders SELECT id, amount, to_timestamp(ms / 1000.0) FROM (VALUES
    ('o001', 100.0, 1704103200000), ('o002', 200.0, 1704103205000),
    ('o003', 150.0, 1704103210000), ('o004',  80.0, 1704103215000)) v(id, amount, ms);
INSERT INTO payments SELECT id, amount, status, to_timestamp(ms / 1000.0) FROM (VALUES
    ('o001', 100.0, 'SUCCESS', 1704103180000), ('o002', 200.0, 'SUCCESS', 1704103208000),
    ('o003', 150.0, 'PENDING', 1704103260000), ('o004',  80.0, 'SUCCESS', 1704103320000)) v(id, amount, status, ms);

\echo
\echo -- all four are paid: o004 after 105 seconds
SELECT sjoin.wait_for();
SELECT order_id, amount, pay_amount, status FROM paid ORDER BY order_id;

\echo
\echo -- the same with o004 paid after seven minutes
DO $do$ BEGIN PERFORM sjoin.drop_join('paid'), sjoin.drop_join('paid_or_not'); END $do$;
TRUNCATE orders, payments;
SELECT sjoin.drop_stream('orders'), sjoin.drop_stream('payments');
SELECT sjoin.create_stream('orders', 'created_at'), sjoin.create_stream('payments', 'paid_at');
SELECT sjoin.create_join('paid', $$
    SELECT o.order_id, o.amount, p.pay_amount, p.status
      FROM orders o
      JOIN payments p ON p.order_id = o.order_id
       AND p.paid_at BETWEEN o.created_at - interval '5 minutes' AND o.created_at + interval '5 minutes' $$);
SELECT sjoin.create_join('paid_or_not', $$
    SELECT o.order_id, o.amount, p.pay_amount, p.status
      FROM orders o
      LEFT JOIN payments p ON p.order_id = o.order_id
       AND p.paid_at BETWEEN o.created_at - interval '5 minutes' AND o.created_at + interval '5 minutes' $$);
INSERT INTO orders SELECT id, amount, to_timestamp(ms / 1000.0) FROM (VALUES
    ('o001', 100.0, 1704103200000), ('o002', 200.0, 1704103205000),
    ('o003', 150.0, 1704103210000), ('o004',  80.0, 1704103215000)) v(id, amount, ms);
INSERT INTO payments SELECT id, amount, status, to_timestamp(ms / 1000.0) FROM (VALUES
    ('o001', 100.0, 'SUCCESS', 1704103180000), ('o002', 200.0, 'SUCCESS', 1704103208000),
    ('o003', 150.0, 'PENDING', 1704103260000), ('o004',  80.0, 'SUCCESS', 1704103635000)) v(id, amount, status, ms);
SELECT sjoin.wait_for();
\echo
\echo -- three pairs, and nothing said of o004 yet: its payment could still come
SELECT order_id, amount, pay_amount, status FROM paid_or_not ORDER BY order_id;

\echo
\echo -- no event older than this will come any more, so o004 was not paid in time
SELECT sjoin.advance_watermark('orders', to_timestamp(1704103515.001)),
       sjoin.advance_watermark('payments', to_timestamp(1704103515.001));
SELECT sjoin.wait_for();
SELECT order_id, amount, pay_amount, status FROM paid_or_not ORDER BY order_id;
SELECT * FROM sjoin.verify('paid_or_not');
