#!/usr/bin/python3
"""Figures of sjoin beside baselines of the same run; started by bench/run.

  a  bulk, inner interval join, append, transactions of 10,000 rows      events/s, first insert to last result visible
  b  the same in one transaction
  c  bulk, left join, upsert, transactions of 10,000 rows
  d  paced 8,000 orders/s and 20,000 items/s in transactions of 20 rows: commit to visible in the result
  e  single-row INSERT, 4 clients, synchronous commit on and off: rate with capture, of the bare rate
  f  retention: DELETE of rows that have been joined and are settled,       time with capture, of the bare time
     with a condition on their event time, and with another
"""
import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import psycopg2

HERE = os.path.dirname(os.path.abspath(__file__))
PAIR = "l.order_id, l.amount, r.amount AS paid, l.created_at, r.paid_at"
QUERY = ("SELECT " + PAIR + " FROM streams.orders l %s JOIN streams.payments r ON l.order_id = r.order_id "
         "AND r.paid_at BETWEEN l.created_at AND l.created_at + interval '1 minute'")

PACED_SCHEMA = """
CREATE TABLE streams.shop_orders (order_id bigint, customer int, ordered_at timestamptz);
CREATE TABLE streams.items (order_id bigint, item int, price int, added_at timestamptz);
SELECT sjoin.create_stream('streams.shop_orders', 'ordered_at'), sjoin.create_stream('streams.items', 'added_at');
SELECT sjoin.create_join('streams.paced', $$
    SELECT o.order_id, o.customer, i.item, i.price, o.ordered_at, i.added_at
      FROM streams.shop_orders o JOIN streams.items i ON i.order_id = o.order_id
       AND i.added_at BETWEEN o.ordered_at AND o.ordered_at + interval '1 minute' $$, output_mode => 'append');
"""
# In seven transactions 40 orders and 100 items: 8 to 20, twenty rows each.
PACED_SCRIPT = """
\\set base random(1, 1000000000000000)
WITH o AS (INSERT INTO streams.shop_orders SELECT :base::bigint + g, g, now() FROM generate_series(0, %d) g)
INSERT INTO streams.items SELECT :base::bigint + g %% %d, g, g, clock_timestamp() FROM generate_series(1, %d) g;
"""
SINGLE_SCRIPT = """
\\set id random(1, 1000000000)
INSERT INTO %s.orders VALUES (:id, 1, clock_timestamp());
"""


def connect():
    connection = psycopg2.connect("")
    connection.autocommit = True
    return connection


def run_sql_file(path):
    subprocess.run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", "-f", path], check=True, stdout=subprocess.DEVNULL)


def fresh(cursor):
    """Empty tables, no join, nothing left to write back."""
    run_sql_file(os.path.join(HERE, "schema.sql"))
    cursor.execute("CHECKPOINT")


def triggers_by_hand(cursor, prefix):
    if prefix:
        cursor.execute("CREATE INDEX ON by_hand.result (order_id)")
    for table, function in (("orders", "join_order"), ("payments", "join_payment")):
        cursor.execute("CREATE TRIGGER t AFTER INSERT ON by_hand.%s FOR EACH ROW EXECUTE FUNCTION by_hand.%s%s()"
                       % (table, prefix, function))


def load(cursor, target, orders, rows_each, unpaid, finish=None):
    """Events per second, from the first insertion until `finish` returns."""
    start = time.monotonic()
    cursor.execute("CALL bare.load(%s, %s, %s, %s)", (target, orders, rows_each, unpaid))
    if finish:
        finish()
    seconds = time.monotonic() - start
    cursor.execute("SELECT (SELECT count(*) FROM %s.orders) + (SELECT count(*) FROM %s.payments)" % (target, target))
    return cursor.fetchone()[0] / seconds


def wait(cursor, name, release=False):
    if release:
        cursor.execute("SELECT sjoin.advance_watermark('streams.orders', '2030-01-01'), sjoin.advance_watermark('streams.payments', '2030-01-01')")
    cursor.execute("SELECT sjoin.wait_for(%s, timeout => '10 min')", (name,))
    if not cursor.fetchone()[0]:
        raise SystemExit("wait_for returned false")


def check_result(cursor, name, rows):
    cursor.execute("SELECT count(*) FROM %s" % name)
    found = cursor.fetchone()[0]
    if found != rows:
        raise SystemExit("%s has %d rows, not %d" % (name, found, rows))
    cursor.execute("SELECT count(*) FROM sjoin.verify(%s) WHERE difference <> 'settled'", (name,))
    if cursor.fetchone()[0]:
        raise SystemExit("%s is not the batch answer" % name)


def bulk(cursor, orders, rows_each, left):
    """[sjoin, bare, by hand] in events per second."""
    fresh(cursor)
    bare = load(cursor, "bare", orders, rows_each, left)
    fresh(cursor)
    triggers_by_hand(cursor, "left_" if left else "")
    by_hand = load(cursor, "by_hand", orders, rows_each, left)
    fresh(cursor)
    cursor.execute("SELECT sjoin.create_join('streams.result', %s, output_mode => %s)",
                   (QUERY % ("LEFT" if left else ""), "upsert" if left else "append"))
    wait(cursor, "streams.result")
    joined = load(cursor, "streams", orders, rows_each, left, lambda: wait(cursor, "streams.result", left))
    check_result(cursor, "streams.result", orders)
    cursor.execute("SELECT sjoin.drop_join('streams.result')")
    return joined, bare, by_hand


def pgbench(scripts, seconds, clients, *options):
    """Starts pgbench; scripts are (text, weight)."""
    arguments = ["pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", "2", "-T", str(seconds), *options]
    folder = tempfile.mkdtemp()
    for number, (text, weight) in enumerate(scripts):
        path = os.path.join(folder, "%d.sql" % number)
        with open(path, "w") as file:
            file.write(text)
        arguments += ["-f", "%s@%d" % (path, weight)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.folder = folder
    return process


def rate_of(process):
    out, err = process.communicate()
    subprocess.run(["rm", "-r", process.folder], check=True)
    found = re.search(r"tps = ([0-9.]+) \(without", out)
    if process.returncode or not found:
        raise SystemExit("pgbench failed: " + err)
    return float(found.group(1))


def probe(cursor, until):
    """Milliseconds from the commit of a marker until a reader sees it joined, again and again."""
    latencies, number = [], 0
    while time.monotonic() < until:
        number -= 1
        cursor.execute("SELECT greatest(pg_relation_size('streams.paced') / 8192 - 200, 0)")
        block = cursor.fetchone()[0]                   # the result grows at its end: no need to read all of it
        cursor.execute("WITH o AS (INSERT INTO streams.shop_orders VALUES (%s, 0, now())) "
                       "INSERT INTO streams.items VALUES (%s, 0, 0, clock_timestamp())", (number, number))
        committed = time.monotonic()
        while not visible(cursor, block, number):
            if time.monotonic() > committed + 30:
                raise SystemExit("marker %d never became visible" % number)
            time.sleep(.001)
        latencies.append((time.monotonic() - committed) * 1000)
        time.sleep(random.uniform(.02, .06))
    return latencies


def visible(cursor, block, number):
    cursor.execute("SELECT FROM streams.paced WHERE ctid >= %s::tid AND order_id = %s", ("(%d,0)" % block, number))
    return cursor.rowcount > 0


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p))]


def paced(cursor, seconds):
    """Rows per second reached, percentiles by the join's histogram and by the probe, in milliseconds."""
    fresh(cursor)
    cursor.execute(PACED_SCHEMA)
    wait(cursor, "streams.paced")
    load_process = pgbench([(PACED_SCRIPT % (5, 6, 14), 5), (PACED_SCRIPT % (4, 5, 15), 2)], seconds, 8, "-R", "1400")
    start = time.monotonic()
    latencies = probe(cursor, start + seconds - 1)
    transactions = rate_of(load_process)
    wait(cursor, "streams.paced")
    cursor.execute("SELECT latency_p50, latency_p95, latency_p99 FROM sjoin.stat_joins WHERE relid = 'streams.paced'::regclass")
    own = cursor.fetchone()
    cursor.execute("SELECT count(*) FROM streams.items")
    check_result(cursor, "streams.paced", cursor.fetchone()[0])
    cursor.execute("SELECT sjoin.drop_join('streams.paced')")
    return transactions * 20, own, [percentile(latencies, p) for p in (.5, .95, .99)], len(latencies)


def single(cursor, seconds, synchronous):
    """Median rates of three runs: with capture, bare, by hand; taken in turn."""
    os.environ["PGOPTIONS"] = "-c synchronous_commit=" + synchronous
    fresh(cursor)
    triggers_by_hand(cursor, "")
    cursor.execute("SELECT sjoin.create_join('streams.result', %s, output_mode => 'append')", (QUERY % "",))
    wait(cursor, "streams.result")
    rates = {"streams": [], "bare": [], "by_hand": []}
    for _ in range(3):
        for target, found in rates.items():
            found.append(rate_of(pgbench([(SINGLE_SCRIPT % target, 1)], seconds, 4)))
            wait(cursor, "streams.result")
    cursor.execute("SELECT sjoin.drop_join('streams.result')")
    del os.environ["PGOPTIONS"]
    return [statistics.median(rates[t]) for t in ("streams", "bare", "by_hand")]


def seconds_to_delete(cursor, target, condition, rows):
    cursor.execute("CHECKPOINT")
    start = time.monotonic()
    cursor.execute("DELETE FROM %s.orders WHERE %s" % (target, condition))
    seconds = time.monotonic() - start
    if cursor.rowcount != rows:
        raise SystemExit("%d rows deleted, not %d" % (cursor.rowcount, rows))
    return seconds


def retention(cursor, condition, rows, rounds):
    """Median times of a DELETE of all orders, joined long ago: of a stream, bare, of a table with a trigger by hand."""
    seconds = {"streams": [], "bare": [], "by_hand": []}
    for number in range(rounds):
        fresh(cursor)
        cursor.execute("CREATE TRIGGER t AFTER DELETE ON by_hand.orders FOR EACH ROW EXECUTE FUNCTION by_hand.nothing()")
        cursor.execute("SELECT sjoin.create_join('streams.result', %s, output_mode => 'append')", (QUERY % "",))
        wait(cursor, "streams.result")
        for target in seconds:
            load(cursor, target, rows, 10000, False)
        wait(cursor, "streams.result", True)
        before = rows_in(cursor)
        for target in sorted(seconds, key=lambda t: (list(seconds).index(t) + number) % 3):
            seconds[target].append(seconds_to_delete(cursor, target, condition, rows))
        wait(cursor, "streams.result")
        if rows_in(cursor) != before:
            raise SystemExit("deletions of settled rows were captured")
        check_result(cursor, "streams.result", rows)
        cursor.execute("SELECT sjoin.drop_join('streams.result')")
    return [statistics.median(seconds[t]) for t in seconds]


def rows_in(cursor):
    cursor.execute("SELECT sum(rows_in) FROM sjoin.stat_inputs WHERE relid = 'streams.result'::regclass")
    return cursor.fetchone()[0]


def thousands(x):
    return "%d k" % round(x / 1000) if x >= 10000 else "%.1f k" % (x / 1000)


def bulk_line(name, figures, least, aim):
    joined, bare, by_hand = figures
    return [name, thousands(joined) + " events/s", thousands(bare), thousands(by_hand),
            "%.1fx the trigger" % (joined / by_hand), least, aim]


def paced_lines(figures):
    rows, own, probed, n = figures
    name = "paced at %s rows/s in transactions of 20, commit to visible" % thousands(rows)
    return [[name + how, "p50 %.1f, p95 %.1f, p99 %.1f ms" % tuple(v), "", "", "", "p95 50, p99 100", "p95 10, p99 20"]
            for how, v in ((" (sjoin's histogram)", own), (" (client, %d markers)" % n, probed))]


def single_line(synchronous, figures, least, aim):
    captured, bare, by_hand = figures
    return ["single-row INSERT, 4 clients, synchronous_commit " + synchronous, thousands(captured) + "/s", thousands(bare),
            thousands(by_hand), "%.2f of bare (trigger: %.2f)" % (captured / bare, by_hand / bare), least, aim]


def retention_line(name, rows, figures):
    captured, bare, by_hand = figures
    return ["retention DELETE of %s settled rows, WHERE %s" % (thousands(rows), name), "%.0f ms" % (captured * 1000),
            "%.0f ms" % (bare * 1000), "%.0f ms" % (by_hand * 1000),
            "%.2fx bare (trigger: %.2fx)" % (captured / bare, by_hand / bare), "1.3x", "1.15x"]


def retention_lines(cursor, rows, rounds):
    return [retention_line(name, rows, retention(cursor, condition, rows, rounds))
            for name, condition in (("event time < ...", "created_at < now() - interval '30 days'"), ("key >= ...", "order_id >= 0"))]


def measure(cursor, options):
    orders = 100000 if options.short else 500000
    seconds = 10 if options.short else 60
    todo = {
        "a": lambda: [bulk_line("inner join, append, transactions of 10 k rows", bulk(cursor, orders, 10000, False), "300 k", "450 k")],
        "b": lambda: [bulk_line("inner join, append, one transaction", bulk(cursor, orders, 0, False), "200 k", "350 k")],
        "c": lambda: [bulk_line("left join, upsert, transactions of 10 k rows", bulk(cursor, orders, 10000, True), "160 k", "250 k")],
        "d": lambda: paced_lines(paced(cursor, seconds)),
        "e": lambda: [single_line("on", single(cursor, 3 if options.short else 10, "on"), "0.90", "0.95"),
                      single_line("off", single(cursor, 3 if options.short else 10, "off"), "0.80", "0.92")],
        "f": lambda: retention_lines(cursor, 300000, 3 if options.short else 9),
    }
    for key in options.only.split(","):
        print("measuring %s" % key, file=sys.stderr, flush=True)
        yield from todo[key]()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("-o", "--output", help="write the table to this file too")
    arguments.add_argument("--short", action="store_true", help="a fifth of the rows, ten seconds of pace")
    arguments.add_argument("--only", default="a,b,c,d,e,f")
    options = arguments.parse_args()
    cursor = connect().cursor()
    lines = ["| figure | sjoin | bare | plpgsql trigger | ratio | at least | aim |", "| --- | --- | --- | --- | --- | --- | --- |"]
    lines += ["| " + " | ".join(line) + " |" for line in measure(cursor, options)]
    cursor.execute("SELECT version()")
    lines += ["", "%s; %d cores; one run." % (cursor.fetchone()[0].split(",")[0], os.cpu_count())]
    print("\n".join(lines))
    if options.output:
        with open(options.output, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
