-- Orders and payments, in milliseconds since 1970: paid within five minutes before or after the order.
CREATE SCHEMA first_example;
SET search_path = first_example;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;

CREATE TABLE orders (order_id text, amount numeric, created_ms bigint,
    created_at timestamptz GENERATED ALWAYS AS (to_timestamp(created_ms / 1000.0)) STORED);
CREATE TABLE payments (order_id text, pay_amount numeric, status text, paid_ms bigint,
    paid_at timestamptz GENERATED ALWAYS AS (to_timestamp(paid_ms / 1000.0)) STORED);
SELECT sjoin.create_stream('orders', 'created_at');
SELECT sjoin.create_stream('payments', 'paid_at');

SELECT sjoin.create_join('inner_pairs', $$
    SELECT o.order_id, o.amount, p.pay_amount, p.status
      FROM orders o
      JOIN payments p ON p.order_id = o.order_id
       AND p.paid_at BETWEEN o.created_at - interval '5 minutes' AND o.created_at + interval '5 minutes' $$);
SELECT sjoin.create_join('left_pairs', $$
    SELECT o.order_id, o.amount, p.pay_amount, p.status
      FROM orders o
      LEFT JOIN payments p ON p.order_id = o.order_id
       AND p.paid_at BETWEEN o.created_at - interval '5 minutes' AND o.created_at + interval '5 minutes' $$);

INSERT INTO orders VALUES
    ('o001', 100.0, 1704103200000), ('o002', 200.0, 1704103205000),
    ('o003', 150.0, 1704103210000), ('o004', 80.0, 1704103215000);
INSERT INTO payments VALUES
    ('o001', 100.0, 'SUCCESS', 1704103180000), ('o002', 200.0, 'SUCCESS', 1704103208000),
    ('o003', 150.0, 'PENDING', 1704103260000), ('o004', 80.0, 'SUCCESS', 1704103320000);

-- all four pairs: the payment of o004 comes 105 s after the order
SELECT sjoin.wait_for();
SELECT order_id, amount, pay_amount, status FROM inner_pairs ORDER BY order_id;
SELECT order_id, amount, pay_amount, status FROM left_pairs ORDER BY order_id;

-- the variant: o004 is paid after seven minutes
SELECT sjoin.drop_join('inner_pairs'), sjoin.drop_join('left_pairs');
UPDATE payments SET paid_ms = 1704103635000 WHERE order_id = 'o004';
SELECT sjoin.create_join('inner_pairs', $$
    SELECT o.order_id, o.amount, p.pay_amount, p.status
      FROM orders o
      JOIN payments p ON p.order_id = o.order_id
       AND p.paid_at BETWEEN o.created_at - interval '5 minutes' AND o.created_at + interval '5 minutes' $$);
SELECT sjoin.create_join('left_pairs', $$
    SELECT o.order_id, o.amount, p.pay_amount, p.status
      FROM orders o
      LEFT JOIN payments p ON p.order_id = o.order_id
       AND p.paid_at BETWEEN o.created_at - interval '5 minutes' AND o.created_at + interval '5 minutes' $$);
SELECT sjoin.wait_for();
SELECT order_id, amount, pay_amount, status FROM inner_pairs ORDER BY order_id;
SELECT order_id, amount, pay_amount, status FROM left_pairs ORDER BY order_id;

-- o004 can still be paid at 1704103515000, and no longer a microsecond later
SELECT sjoin.advance_watermark('orders', to_timestamp(1704103515)),
       sjoin.advance_watermark('payments', to_timestamp(1704103515));
SELECT sjoin.wait_for();
SELECT count(*) FROM left_pairs;
SELECT sjoin.advance_watermark('orders', to_timestamp(1704103515) + interval '1 microsecond'),
       sjoin.advance_watermark('payments', to_timestamp(1704103515) + interval '1 microsecond');
SELECT sjoin.wait_for();
SELECT order_id, amount, pay_amount, status FROM left_pairs ORDER BY order_id;

SELECT * FROM sjoin.verify('inner_pairs');
SELECT * FROM sjoin.verify('left_pairs');
DROP SCHEMA first_example CASCADE;
