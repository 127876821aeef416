#!/usr/bin/python3
"""The live load of the demo: orders and their items, written by two clients and joined meanwhile.

demo_load.py [SECONDS]; the connection is libpq's.
"""
import multiprocessing
import random
import sys
import time

import psycopg2
from psycopg2.extras import execute_values

CLIENTS = 2
ORDERS_PER_TRANSACTION = 4                # with four items each on average: 20 rows
TRANSACTIONS_PER_SECOND = 150             # per client

SCHEMA = """
SET client_min_messages = warning;
CREATE TABLE shop_orders (order_id bigint, customer int, ordered_at timestamptz);
CREATE TABLE order_items (order_id bigint, item int, price numeric, added_at timestamptz);
SELECT sjoin.create_stream('shop_orders', 'ordered_at'), sjoin.create_stream('order_items', 'added_at');
SELECT sjoin.create_join('order_items_joined', $$
    SELECT o.order_id, o.customer, i.item, i.price, i.added_at
      FROM shop_orders o
      JOIN order_items i ON i.order_id = o.order_id
       AND i.added_at BETWEEN o.ordered_at AND o.ordered_at + interval '1 minute' $$);
"""

PROGRESS = """
SELECT (SELECT rows_in FROM sjoin.stat_inputs WHERE relid = j.relid AND input = 'o'),
       (SELECT rows_in FROM sjoin.stat_inputs WHERE relid = j.relid AND input = 'i'),
       rows_out, latency_p50, latency_p95, latency_p99, state_rows, state_bytes
  FROM sjoin.stat_joins j WHERE relid = 'order_items_joined'::regclass
"""


def connect():
    connection = psycopg2.connect("")
    connection.autocommit = True
    return connection


def write(client, until):
    """One client: each transaction holds new orders and items, some of them of the orders before."""
    connection, rng = connect(), random.Random(client)
    connection.autocommit = False
    cursor, number, waiting = connection.cursor(), client, []
    pace = time.monotonic()
    while pace < until:
        orders, items = [], waiting
        waiting = []
        for _ in range(ORDERS_PER_TRANSACTION):
            number += CLIENTS
            orders.append((number, rng.randrange(1000)))
            for item in range(rng.randint(2, 6)):
                (items if rng.random() < .8 else waiting).append((number, item, rng.randrange(100, 10000) / 100))
        execute_values(cursor, "INSERT INTO shop_orders VALUES %s", orders, "(%s, %s, clock_timestamp())")
        execute_values(cursor, "INSERT INTO order_items VALUES %s", items, "(%s, %s, %s, clock_timestamp())")
        connection.commit()
        pace += 1 / TRANSACTIONS_PER_SECOND
        time.sleep(max(0, pace - time.monotonic()))


def show_progress(cursor, seconds, start):
    """A line each second: what came in, what came out, and how long a committed row took to be in the result."""
    print("%4s %10s %10s %12s %10s" % ("s", "orders", "items", "result rows", "lag ms"))
    for second in range(1, seconds + 1):
        time.sleep(max(0, start + second - time.monotonic()))
        asked = time.monotonic()
        cursor.execute("SELECT sjoin.wait_for('order_items_joined')")
        lag = (time.monotonic() - asked) * 1000
        cursor.execute(PROGRESS)
        orders, items, rows = cursor.fetchone()[:3]
        print("%4d %10d %10d %12d %10.1f" % (second, orders, items, rows, lag), flush=True)


def show_end(cursor):
    cursor.execute("SELECT sjoin.wait_for('order_items_joined')")
    cursor.execute("SELECT (SELECT count(*) FROM shop_orders), (SELECT count(*) FROM order_items), "
                   "(SELECT count(*) FROM order_items_joined)")
    print("\norders %d, items %d, rows of the result %d" % cursor.fetchone())
    cursor.execute(PROGRESS)
    row = cursor.fetchone()
    print("from commit to visible in the result: half within %.1f ms, 95 %% within %.1f ms, 99 %% within %.1f ms" % row[3:6])
    print("state: %d rows, %d kB" % (row[6], row[7] // 1024))
    cursor.execute("SELECT difference, n FROM sjoin.verify('order_items_joined')")
    differences = cursor.fetchall()
    print("sjoin.verify('order_items_joined'): %d rows%s" % (
        len(differences), ", equal to the batch query" if not differences else ": %s" % differences))
    return not differences


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    cursor = connect().cursor()
    cursor.execute(SCHEMA)
    start = time.monotonic()
    clients = [multiprocessing.Process(target=write, args=(c, start + seconds)) for c in range(CLIENTS)]
    for client in clients:
        client.start()
    show_progress(cursor, seconds, start)
    for client in clients:
        client.join()
    sys.exit(0 if show_end(cursor) else 1)


if __name__ == "__main__":
    main()
