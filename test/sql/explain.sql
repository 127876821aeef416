-- explain: what a join would keep, for how long, and when its rows are written; nothing is created.
CREATE SCHEMA explain_join;
SET search_path = explain_join;
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET datestyle = ISO;
SET intervalstyle = postgres;

CREATE TABLE orders (id int, created_at timestamptz, amount numeric);
CREATE TABLE payments (order_id int, paid_at timestamptz, status text);
SELECT sjoin.create_stream('orders', 'created_at');
SELECT sjoin.create_stream('payments', 'paid_at', watermark_delay => '30 s');
\pset format unaligned
\pset tuples_only on
SELECT * FROM sjoin.explain($$
    SELECT o.id, p.status FROM orders o
      LEFT JOIN payments p ON p.order_id = o.id AND p.paid_at BETWEEN o.created_at AND o.created_at + interval '5 minutes' $$);
SELECT * FROM sjoin.explain($$
    SELECT o.id, p.status FROM orders o
      JOIN payments p ON p.order_id = o.id
       AND p.paid_at > o.created_at - interval '1 hour' AND p.paid_at <= o.created_at + interval '10 minutes'
     WHERE o.amount > 10 AND p.status <> o.amount::text $$, output_mode => 'append');
SELECT * FROM sjoin.explain($$
    SELECT o.id, p.status FROM orders o LEFT JOIN payments p ON p.order_id = o.id $$,
    ttl => '1 day', timeout => '1 hour');
SELECT * FROM sjoin.explain($$
    SELECT o.id, p.status FROM orders o JOIN payments p ON p.order_id = o.id AND p.paid_at BETWEEN o.created_at AND o.created_at + interval '1 hour' $$,
    output_mode => 'changelog') line WHERE line LIKE 'output%';
\pset tuples_only off
\pset format aligned
SELECT count(*) FROM sjoin.joins;
DROP SCHEMA explain_join CASCADE;
