#!/usr/bin/python3
"""Properties that every join must have, on a running server.

  properties.py [--rounds N] [--seed S]       N random loads; the seed is printed

One load of rows is played into several joins of the same query, each with tables of its own:

  ordered      in the order of event time
  shuffled     in another order within watermark_delay
  lateness     with an allowed lateness of a day: nothing is ever cleaned up
  restarts     the worker is ended, or all joins carry their state forward, at any point
  final, append, changelog     in these ways of writing, shuffled, without any allowed lateness

No row is late, so in the end all results must be the same, none must ever have taken anything back, no row may have
come out unmatched beside a match, and verify() must find no difference.
"""
import argparse
import random
import sys
from collections import Counter

from run import Server

WAYS = {
    "ordered": "allowed_lateness => '0 s'",
    "shuffled": "allowed_lateness => '0 s'",
    "lateness": "allowed_lateness => '1 day'",
    "restarts": "allowed_lateness => '0 s'",
    "final": "emit => 'final'",
    "append": "output_mode => 'append'",
    "changelog": "output_mode => 'changelog', allowed_lateness => '0 s'",
}
SIDES = ("l", "r")
WORDS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN"}


class Load:
    """Random rows, and the query that joins them."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.rng, self.type, self.delay = rng, rng.choice(["inner", "left", "left", "right"]), rng.randint(0, 10)
        self.lower, self.upper = sorted(rng.randint(-8, 8) for _ in range(2))
        self.wide = rng.random() < .25
        self.ttl = [rng.randint(1, 10), rng.randint(1, 10)]
        keys, self.rows = rng.randint(1, 5), []
        for i in range(rng.randint(10, 60)):
            self.rows.append((rng.choice(SIDES), i, None if rng.random() < .05 else rng.randint(1, keys), rng.randint(0, 60)))

    def query(self, schema):
        time = "" if self.wide else " AND r.ts BETWEEN l.ts + interval '%d s' AND l.ts + interval '%d s'" % (self.lower, self.upper)
        return "SELECT l.id AS l_id, r.id AS r_id FROM %s.l l %s %s.r r ON l.k = r.k%s" % (schema, WORDS[self.type], schema, time)

    def options(self, way):
        ttl = """, side_ttl => '{"l": "%d s", "r": "%d s"}'""" % tuple(self.ttl) if self.wide else ""
        return WAYS[way] + ttl

    def ordered(self):
        return sorted(self.rows, key=lambda row: row[3])

    def shuffled(self):
        """None of them comes when one that is more than the delay younger has come."""
        return sorted(self.rows, key=lambda row: row[3] + self.rng.uniform(0, self.delay))

    def transactions(self, rows):
        parts = []
        while rows:
            n = self.rng.choice([1, 1, 2, 3, 8])
            parts.append(rows[:n])
            rows = rows[n:]
        return parts


def stamp(second):
    return "timestamptz '2024-01-01 10:00:00+00' + interval '%d s'" % second


def make(cursor, load, schema, way):
    cursor.execute("DROP SCHEMA IF EXISTS %s CASCADE; CREATE SCHEMA %s" % (schema, schema))
    for side in SIDES:
        cursor.execute("CREATE TABLE %s.%s (id int, k int, ts timestamptz)" % (schema, side))
        cursor.execute("SELECT sjoin.create_stream('%s.%s', 'ts', watermark_delay => '%d s', idle_timeout => '0 s')" % (schema, side, load.delay))
    cursor.execute("SELECT sjoin.create_join('%s.result', $q$%s$q$, %s)" % (schema, load.query(schema), load.options(way)))


def play(server, load, schema, way):
    rows = load.ordered() if way in ("ordered", "lateness") else load.shuffled()
    for part in load.transactions(rows):
        if way == "restarts" and load.rng.random() < .2:
            load.rng.choice([server.terminate_workers, server.carry_forward])()
        server.cursor.execute("BEGIN")
        for side, i, k, second in part:
            server.cursor.execute("INSERT INTO %s.%s VALUES (%%s, %%s, %s)" % (schema, side, stamp(second)), (i, k))
        server.cursor.execute("COMMIT")
    for side in SIDES:
        server.cursor.execute("SELECT sjoin.advance_watermark('%s.%s', %s)" % (schema, side, stamp(1000)))


def problems(server, schema, way, expected):
    """What is wrong with a result; the bag of its rows."""
    found = Counter(server.ask("SELECT l_id, r_id FROM %s.result" % schema))
    if way == "changelog":
        taken_back = server.ask("SELECT count(*) FROM %s.result WHERE sjoin_op <> '+I'" % schema)[0][0]
        if taken_back:
            yield "%d rows of the changelog were taken back" % taken_back
    if expected is not None and found != expected:
        yield "missing %s, extra %s" % (sorted((expected - found).elements(), key=repr), sorted((found - expected).elements(), key=repr))
    for side in (0, 1):
        padded = {row[side] for row in found if row[1 - side] is None}
        beside = [row for row in found if row[1 - side] is not None and row[side] in padded]
        if beside:
            yield "rows come out unmatched beside a match: %s" % beside
    late = server.ask("SELECT input, row_data FROM sjoin.late_rows WHERE result = %s::regclass::text", schema + ".result")
    if late:
        yield "late rows: %s" % late
    differences = server.ask("SELECT * FROM sjoin.verify(%s)", schema + ".result")
    if differences:
        yield "verify: %s" % differences
    rows = server.ask("SELECT state_rows FROM sjoin.stat_joins WHERE relid = %s::regclass", schema + ".result")[0][0]
    if rows and way != "lateness":
        yield "%d rows are left in state" % rows


def run(server, seed):
    """One load; what is wrong with it."""
    load, wrong, expected = Load(seed), [], None
    schemas = {way: "property_" + way for way in WAYS}
    for way, schema in schemas.items():
        make(server.cursor, load, schema, way)
    reason = server.wait()
    for way, schema in schemas.items():
        play(server, load, schema, way)
    reason = reason or server.wait()
    if reason:
        wrong.append(reason)
    for way, schema in schemas.items():
        wrong += ["%s: %s" % (way, problem) for problem in problems(server, schema, way, expected)]
        if expected is None:
            expected = Counter(server.ask("SELECT l_id, r_id FROM %s.result" % schema))
    for schema in schemas.values():
        server.cursor.execute("DROP SCHEMA %s CASCADE" % schema)
    return wrong


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--seed", type=int)
    options = arguments.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    server, failed = Server(), 0
    server.prepare()
    print("seed %d, %d rounds" % (seed, options.rounds), flush=True)
    for i in range(options.rounds):
        wrong = run(server, seed + i)
        failed += bool(wrong)
        for problem in wrong:
            print("# seed %d: %s" % (seed + i, problem), flush=True)
    print("rounds: %d passed, %d failed (seed %d)" % (options.rounds - failed, failed, seed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
