#!/usr/bin/python3
"""Random joins on a running server against the executable model of the rules (sjoin_model.py).

  run.py [--rounds N] [--seed S]       N random cases; the seed is printed
  run.py --file CASE [--shrink]        a case as printed on failure (JSON lines), optionally made smaller

After the steps of a case the result table and the late rows must be what the model says, and verify() must find no
difference.  Several cases run side by side, each in its own schema.  The connection is libpq's (PGHOST, PGPORT,
PGUSER, PGDATABASE); with a server of dev/server some restarts are crashes of the server.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import psycopg2

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sjoin_model as model
from case import Case, REASONS_KEPT

SIDE_BY_SIDE = 8
CRASH_EVERY = 50
TWICE = .3                                            # share of the groups that are played again, compared now and then
PAUSE = threading.Event()                             # never set: a pause between attempts to connect
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Server:
    """A connection that survives restarts of the server."""

    def __init__(self):
        self.thrown_away = os.path.isdir(os.path.join(os.environ.get("PGHOST", ""), "data"))
        self.connect()

    def connect(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                self.connection = psycopg2.connect("")
                self.connection.autocommit = True
                self.cursor = self.connection.cursor()
                self.cursor.execute("SELECT 1")
                return
            except psycopg2.OperationalError:
                if time.monotonic() > deadline:
                    raise
                PAUSE.wait(.05)

    def prepare(self):
        self.cursor.execute("CREATE EXTENSION IF NOT EXISTS sjoin")
        if self.ask("SELECT FROM pg_available_extensions WHERE name = 'sjoin_test'"):
            self.cursor.execute("CREATE EXTENSION IF NOT EXISTS sjoin_test")
        self.settable_clock = self.ask("SELECT to_regprocedure('sjoin_test.set_clock(timestamptz)')")[0][0] is not None
        self.cursor.execute("ALTER SYSTEM SET sjoin.restart_delay = '10ms'")
        self.cursor.execute("SELECT pg_reload_conf()")

    def ask(self, query, *arguments):
        self.cursor.execute(query, arguments)
        return self.cursor.fetchall()

    def terminate_workers(self):
        self.ask("SELECT pg_terminate_backend(pid) FROM sjoin.stat_workers WHERE datname = current_database()")

    def crash(self, rng):
        """kill -9 of the worker, which takes all backends down, or of the whole server."""
        workers = self.ask("SELECT pid FROM sjoin.stat_workers WHERE datname = current_database()")
        if workers and rng.random() < .5:
            os.kill(workers[0][0], signal.SIGKILL)
            self.await_disconnect()
        else:
            self.connection.close()
            subprocess.run([os.path.join(ROOT, "dev", "server"), "crash", os.environ["PGHOST"]], check=True)
        self.connect()

    def await_disconnect(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                self.ask("SELECT 1")
            except psycopg2.Error:
                return
            PAUSE.wait(.01)

    def wait(self):
        """Everything committed is in every result; else the reason."""
        del self.connection.notices[:]
        if self.ask("SELECT sjoin.wait_for(timeout => '30 s')")[0][0]:
            return None
        return "wait_for returned false: " + " ".join(n.strip() for n in self.connection.notices)


class Run:
    """A case on the server beside the model of it."""

    def __init__(self, case, number):
        self.case, self.schema, self.failure = case, "case_%d" % number, None
        self.model = model.Spec(case.config, model.FIXED)
        self.expected, self.late, self.position = self.model.result(), Counter(), 0

    def start(self, server):
        server.cursor.execute("CREATE SCHEMA %s" % self.schema)
        for statement in self.case.tables(self.schema):
            server.cursor.execute(statement)
        for statement in self.case.streams():
            server.cursor.execute(statement)
        history = [op for step in self.case.steps[:self.case.history] for op in step["txn"]]
        for step in self.case.steps[:self.case.history]:
            self.case.run_step(server.cursor, step)
        self.join_statement = self.case.create_join()
        server.cursor.execute(self.join_statement)
        if history:                                   # existing rows: none is late, as if they came in one transaction
            self.follow({"txn": history})
        self.position = self.case.history

    def follow(self, step):
        if step.get("restart"):
            return
        self.expected = self.model.step(step)
        self.late.update(tuple(x) for x in self.model.late if x[2] in REASONS_KEPT)

    def done(self):
        return self.failure is not None or self.position >= len(self.case.steps)

    def step(self, server, clock):
        """Next step; returns true when it asks for a restart."""
        step = self.case.steps[self.position]
        self.position += 1
        if step.get("restart"):
            return True
        if clock and "now" in step:
            server.cursor.execute("SELECT sjoin_test.set_clock(%s)", (self.case.time_with_zone(step["now"]),))
        self.case.run_step(server.cursor, step)
        self.follow(step)
        return False

    def compare(self, server):
        got = self.case.result(server.cursor)
        want = Counter()
        for (left, right, _), n in self.expected.items():
            want[(left and left[0], right and right[0])] += n
        if got != want:
            self.fail("result: missing %s, extra %s" % (sorted((want - got).elements(), key=repr), sorted((got - want).elements(), key=repr)))
            return
        late = self.case.late(server.cursor)
        if late != self.late:
            self.fail("late rows: missing %s, extra %s" % (sorted((self.late - late).elements(), key=repr), sorted((late - self.late).elements(), key=repr)))

    def finish(self, server):
        """What holds at the end: the batch answer, and a bounded join that has forgotten everything."""
        if self.failure:
            return
        differences = server.ask("SELECT * FROM sjoin.verify(%s)", self.schema + ".result")
        bad = [d for d in differences if d[0] in ("missing", "extra", "duplicate")]
        if bad:
            return self.fail("verify: %s" % bad)
        kept = server.ask("SELECT state_rows FROM sjoin.stat_joins WHERE relid = %s::regclass", self.schema + ".result")
        if kept and kept[0][0]:
            self.fail("state is not empty at the end: %s rows" % kept[0][0])

    def fail(self, what):
        self.failure = "after step %d (%s): %s" % (self.position, json.dumps(self.case.steps[self.position - 1]) if self.position else "creation", what)

    def drop(self, server):
        server.cursor.execute("DROP SCHEMA %s CASCADE" % self.schema)

    def report(self):
        first = {"config": self.case.config, "render": self.case.render, "history": self.case.history}
        return "\n".join(["# " + self.failure, "# " + getattr(self, "join_statement", "")] +
                         [json.dumps(x) for x in [first] + self.case.steps])


def random_case(seed, clock):
    """The model's own generator, kept to what this release can do."""
    rng = random.Random(seed)
    only = dict(changes=False, noalter=True, upsert_key=False, mode=rng.choice(["upsert", "upsert", "append"]),
                type=rng.choice(TYPES), kind=rng.choice(["interval", "interval", "wide"]),
                emit=rng.choice(["auto", "auto", "auto", "final"]), late=rng.choice(["keep", "keep", "drop"]))
    config, steps = model.gen(rng, only)
    config.pop("max_rows_per_key", None)
    if config["kind"] == "wide":
        config["ttl"] = [max(1, ttl) for ttl in config["ttl"]]
    if config["type"] == "inner":
        config.pop("timeout", None)
    steps = [s for s in steps if "clock" not in s and "alter" not in s]
    if config.get("max_future") is not None and not clock:
        del config["max_future"]
    first_other = next((i for i, s in enumerate(steps) if "txn" not in s), len(steps))
    history = rng.randint(1, first_other) if first_other and "max_future" not in config and rng.random() < .15 else 0
    return Case(config, steps, rng.randrange(10**6), history)


TYPES = ["inner", "left", "left", "right"]


def play(server, runs, rng, crash, eager=False):
    """Runs the cases side by side, each step of one after that of another."""
    clock = server.settable_clock and any("max_future" in r.case.config for r in runs)
    for run in runs:
        attempt(run, lambda: run.start(server), server)
    check(server, runs)
    while not all(r.done() for r in runs):
        moving = [r for r in runs if not r.done()]
        restarts = [attempt(r, lambda: r.step(server, clock), server) for r in moving]
        if any(restarts):
            if crash:
                server.crash(rng)
                crash = False
            else:
                server.terminate_workers()
        if eager or rng.random() < .7 or any(r.done() for r in moving):
            check(server, moving)
    for run in runs:
        attempt(run, lambda: run.finish(server), server)
    if clock:
        server.cursor.execute("SELECT sjoin_test.set_clock(NULL)")


def attempt(run, action, server):
    try:
        return action()
    except psycopg2.Error as error:
        run.fail("%s: %s" % (type(error).__name__, str(error).strip()))
        if server.connection.closed:
            server.connect()
        server.cursor.execute("ROLLBACK")


def check(server, runs):
    runs = [r for r in runs if not r.failure]
    reason = server.wait() if runs else None
    for run in runs:
        if reason:
            run.fail(reason)
        else:
            attempt(run, lambda: run.compare(server), server)


def batches(cases):
    """Groups that run together; cases that set the server's clock run alone."""
    group = []
    for case in cases:
        if "max_future" in case.config:
            yield [case]
            continue
        group.append(case)
        if len(group) == SIDE_BY_SIDE:
            yield group
            group = []
    if group:
        yield group


def play_and_report(server, group, number, rng, crash, eager):
    """Plays a group of cases in schemas numbered from 'number'; how many failed."""
    runs = [Run(case, number + i) for i, case in enumerate(group)]
    play(server, runs, rng, crash, eager)
    for run in runs:
        if run.failure:
            print(run.report(), flush=True)
        run.drop(server)
    return sum(run.failure is not None for run in runs)


def fuzz(server, seed, rounds):
    """Every case compares after each step; some are played again with several steps in one batch of the worker."""
    print("seed %d, %d rounds" % (seed, rounds), flush=True)
    cases = [random_case(seed + i, server.settable_clock) for i in range(rounds)]
    rng, done, failed, since_crash = random.Random(seed), 0, 0, 0
    for group in batches(cases):
        crash = server.thrown_away and since_crash >= CRASH_EVERY
        since_crash = len(group) if crash else since_crash + len(group)
        failed += play_and_report(server, group, done, rng, crash, eager=True)
        if rng.random() < TWICE:
            failed += play_and_report(server, group, done, rng, False, eager=False)
        done += len(group)
    if server.settable_clock:
        server.cursor.execute("SELECT sjoin_test.set_clock(NULL)")
    print("rounds: %d passed, %d failed (seed %d)" % (done - failed, failed, seed))
    return failed


def load(path):
    with open(path) as file:
        items = [json.loads(line) for line in file if line.strip() and line[0] != "#"]
    config = dict(model.DEFAULTS)
    config.update(items[0]["config"])
    return Case(config, items[1:], items[0].get("render", 0), items[0].get("history", 0))


NUMBER = [0]


def failure_of(server, case):
    NUMBER[0] += 1
    run = Run(Case(case.config, case.steps, case.render, case.history), NUMBER[0])
    play(server, [run], random.Random(0), False, eager=True)
    run.drop(server)
    return run if run.failure else None


def shrink(server, case):
    """A smaller case that still fails: fewer steps, fewer rows."""
    best, smaller = case, True
    while smaller:
        smaller = False
        for i in reversed(range(len(best.steps))):
            for steps in less(best.steps, i):
                candidate = Case(best.config, steps, best.render, 0 if best.history == 0 else min(best.history, len(steps)))
                if failure_of(server, candidate):
                    best, smaller = candidate, True
                    break
    return best


def less(steps, i):
    if i >= len(steps):
        return
    yield steps[:i] + steps[i + 1:]
    rows = steps[i].get("txn", [])
    for j in range(len(rows)) if len(rows) > 1 else ():
        yield steps[:i] + [dict(steps[i], txn=rows[:j] + rows[j + 1:])] + steps[i + 1:]


def replay(server, path, smaller):
    case = load(path)
    run = failure_of(server, case)
    if run and smaller:
        run = failure_of(server, shrink(server, case)) or run
    print(run.report() if run else "passed")
    return 1 if run else 0


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=200)
    arguments.add_argument("--seed", type=int)
    arguments.add_argument("--file")
    arguments.add_argument("--shrink", action="store_true")
    options = arguments.parse_args()
    server = Server()
    server.prepare()
    if options.file:
        sys.exit(replay(server, options.file, options.shrink))
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    sys.exit(1 if fuzz(server, seed, options.rounds) else 0)


if __name__ == "__main__":
    main()
