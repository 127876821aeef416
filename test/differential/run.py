#!/usr/bin/python3
"""Random joins on a running server against the executable model of the rules (sjoin_model.py).

  run.py [--rounds N] [--seed S]       N random cases; the seed is printed
         [--modes M,M]                 only these output modes
         [--replay]                    late rows are replayed in between
  run.py --file CASE [--shrink]        a case as printed on failure (JSON lines), optionally made smaller

After each step of a case the result table and the late rows must be what the model says (netting.py: by
transactions), and at the end verify() must find no difference.  A second session looks at the results all the time
(results.py).  With --replay the model cannot follow, and verify() must find no difference after any step.
Several cases run side by side, each in its own schema.  The connection is libpq's (PGHOST, PGPORT,
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
from case import Case
from netting import Netting, split_ambiguous
from results import Broken, Reader, Result

MODES = "upsert,upsert,append,changelog"

SIDE_BY_SIDE = 8
CRASH_EVERY = 50
CARRIED = .15                                         # share of the steps before which all joins carry their state forward
VERSIONED = .25                                       # share of the cases with an upsert key, where it can be
REPLAYED = .3                                         # share of the steps after which late rows are replayed
TRIMMED = .15                                         # ... those that nothing depends on are removed
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
                self.stop_clock()
                return
            except psycopg2.OperationalError:
                if time.monotonic() > deadline:
                    raise
                PAUSE.wait(.05)

    def prepare(self):
        self.cursor.execute("CREATE EXTENSION IF NOT EXISTS sjoin")
        if self.ask("SELECT FROM pg_available_extensions WHERE name = 'sjoin_test'"):
            self.cursor.execute("CREATE EXTENSION IF NOT EXISTS sjoin_test")
        self.settable_clock = self.ask("SELECT to_regprocedure('sjoin_test.set_clock(timestamptz, boolean)')")[0][0] is not None
        self.stop_clock()
        self.cursor.execute("ALTER SYSTEM SET sjoin.restart_delay = '10ms'")
        self.cursor.execute("SELECT pg_reload_conf()")
        self.prepared = int(self.ask("SHOW max_prepared_transactions")[0][0]) > 0

    def stop_clock(self):
        """No time passes: nothing becomes idle by itself.  A start of the server lets it run again."""
        if getattr(self, "settable_clock", False):
            self.ask("SELECT sjoin_test.set_clock(NULL, stopped => true)")

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

    def carry_forward(self):
        """Makes all joins write a checkpoint: they do when a setting is another (one that no case depends on)."""
        self.max_future = 121 - getattr(self, "max_future", 60)
        self.cursor.execute("ALTER SYSTEM SET sjoin.max_future = '%d s'" % self.max_future)
        self.cursor.execute("SELECT pg_reload_conf()")

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
        self.model = Netting(case.config, case.captured, case.partition)
        self.late, self.position = Counter(), 0
        self.contents = [Counter()]                   # of the result, after each step

    def start(self, server):
        server.cursor.execute("DROP SCHEMA IF EXISTS %s CASCADE" % self.schema)
        server.cursor.execute("CREATE SCHEMA %s" % self.schema)
        for statement in self.case.tables(self.schema, server.prepared):
            server.cursor.execute(statement)
        for statement in self.case.streams():
            server.cursor.execute(statement)
        history = self.case.steps[:self.case.history]
        for step in history:
            self.case.run_step(server.cursor, step)
        self.join_statement = self.case.create_join()
        server.cursor.execute(self.join_statement)
        if history:                                   # existing rows: none is late, as if they came in one transaction
            self.follow(self.case.rows_there(history))
        self.position = self.case.history

    def follow(self, step):
        if step.get("restart"):
            return
        parts = [{"wm": {side: t}} for side, t in step["wm"].items()] if "wm" in step else [step]
        for part in parts:                            # each watermark is a transaction of its own
            bag = Counter()
            for (left, right, _), n in self.model.step(part).items():
                bag[left and left[0], right and right[0]] += n
            self.contents.append(bag)
            self.late.update(tuple(x) for x in self.model.late)

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
        want = self.contents[-1]
        try:
            got = Result(self.schema, self.case.config["mode"]).look(server.cursor)
        except Broken as broken:
            return self.fail(str(broken))
        if got != want:
            return self.fail("result: missing %s, extra %s" % (sorted((want - got).elements(), key=repr), sorted((got - want).elements(), key=repr)))
        unknown = self.case.unknown(server.cursor)
        if unknown:                                   # the join has seen all that ever was in its tables
            return self.fail("unknown rows changed: %s" % unknown)
        late = self.case.late(server.cursor)
        if late != self.late:
            self.fail("late rows: missing %s, extra %s" % (sorted((self.late - late).elements(), key=repr), sorted((late - self.late).elements(), key=repr)))

    def differences(self, server):
        """What verify() says against the result; true when it says something."""
        differences = server.ask("SELECT * FROM sjoin.verify(%s)", self.schema + ".result")
        real = ["missing", "extra", "duplicate"]
        if self.model.twice_there or (self.case.bag or self.case.partitioned) and self.rows_may_be_gone():
            # rows that look alike, or one that moved to another partition: nobody can say which of them are gone
            real = []
        bad = [d for d in differences if d[0] in real]
        if bad:
            self.fail("verify: %s" % bad)
        return bool(bad)

    def rows_may_be_gone(self):
        """May the tables have lost rows that the join keeps?"""
        return self.model.settled_gone

    def finish(self, server):
        """What holds at the end: the batch answer, and a bounded join that has forgotten everything."""
        if self.failure or self.differences(server):
            return
        strangers = self.case.strangers(server.cursor)
        if strangers:
            return self.fail("the tables are not what the steps say: %s" % strangers)
        kept = server.ask("SELECT state_rows FROM sjoin.stat_joins WHERE relid = %s::regclass", self.schema + ".result")
        if kept and kept[0][0]:
            self.fail("state is not empty at the end: %s rows" % kept[0][0])

    def fail(self, what):
        """(what: None when nothing is wrong)"""
        self.kind = what and what.split()[0]          # a smaller case must fail in the same way
        self.failure = what and "after step %d (%s): %s" % (self.position, json.dumps(self.case.steps[self.position - 1]) if self.position else "creation", what)

    def drop(self, server):
        server.cursor.execute("DROP SCHEMA %s CASCADE" % self.schema)

    def report(self):
        first = {"config": self.case.config, "render": self.case.render, "history": self.case.history}
        return "\n".join(["# " + self.failure.replace("\n", " "), "# " + getattr(self, "join_statement", "")] +
                         [json.dumps(x) for x in [first] + self.case.steps])


class ReplayRun(Run):
    """A case in which late rows are taken in after all, some or all of them, in between."""

    total = 0                                         # late rows handed over, in all cases

    def __init__(self, case, number):
        super().__init__(case, number)
        self.rng = random.Random(case.render)
        self.replayed = 0

    def step(self, server, clock):
        restart = super().step(server, clock)
        if self.rng.random() < REPLAYED:
            self.replay(server)
        if self.rng.random() < TRIMMED:
            server.ask("SELECT sjoin.trim_late(%s, '0 s')", self.schema + ".result")
        return restart

    def rows_may_be_gone(self):
        """Of replayed rows the model knows nothing."""
        return super().rows_may_be_gone() or self.replayed > 0

    def replay(self, server):
        """All, or some by their numbers, those that cannot be replayed (any more) among them."""
        result = self.schema + ".result"
        ids = [i for i, in server.ask("SELECT late_id FROM sjoin.late_rows WHERE result = %s::regclass::text ORDER BY late_id", result)]
        some = None if self.rng.random() < .4 else [i for i in ids if self.rng.random() < .5]
        n = server.ask("SELECT sjoin.replay_late(%s, %s::bigint[])", result, some)[0][0]
        self.replayed += n
        ReplayRun.total += n

    def compare(self, server):
        self.differences(server)
        again = server.ask("SELECT count(*) FILTER (WHERE op = 'R'), count(DISTINCT other_seq) FILTER (WHERE op = 'R') FROM sjoin.late_row l "
                           "JOIN sjoin.join_def j USING (join_id) WHERE j.result = %s::regclass", self.schema + ".result")[0]
        if again[0] != again[1] or again[0] > self.replayed:
            self.fail("replayed %s late rows of %s, handed over %s" % (again[0], again[1], self.replayed))


def random_case(seed, clock, modes, replays=False):
    """The model's own generator, kept to what this release can do."""
    rng = random.Random(seed)
    only = dict(changes=rng.random() < .8, upsert_key=False, mode=rng.choice(modes),
                type=rng.choice(TYPES), kind=rng.choice(["interval", "interval", "wide"]),
                emit=rng.choice(["auto", "auto", "auto", "final"]), late=rng.choice(["keep", "keep", "keep", "drop", "join"]))
    config, steps = model.gen(rng, only)
    config.pop("max_rows_per_key", None)
    if config["kind"] == "wide":
        config["ttl"] = [max(1, ttl) for ttl in config["ttl"]]
    if config["type"] == "inner":
        config.pop("timeout", None)
    if config["late"] == "join" and (config["mode"] == "append" or config["emit"] == "final"):
        # the widest bound is a microsecond shorter where it is open, and all that is due by the horizon with it
        config["lower_open"] = config["upper_open"] = False
    if config.get("max_future") is not None and not clock:
        del config["max_future"]
    steps = quiet_inputs(config, steps, clock, rng)
    steps = alterations(config, steps, rng)
    if not replays and config["mode"] != "append" and not config["self_join"] and rng.random() < VERSIONED:
        config["upsert_key"] = True
    if replays:                                       # as many late rows as there can be
        config["late"] = "keep"
        if rng.random() < .7:
            config["allowed_lateness"], config["delay"] = 0, [0, 0]
    case = Case(config, steps, rng.randrange(10**6))
    if only["changes"]:
        case.steps = steps = change_more(case, rng)
    if config.get("upsert_key"):
        case.steps = steps = one_version_at_a_time(steps)
    if case.bag or case.partitioned:
        case.steps = steps = split_ambiguous(config, steps, case.captured, case.partition, rng)
    first_other = next((i for i, s in enumerate(steps) if "txn" not in s), len(steps))
    case.history = rng.randint(1, first_other) if first_other and "max_future" not in config and rng.random() < .15 else 0
    if config.get("upsert_key") and ties(case.rows_there(steps[:case.history])["txn"]):
        case.history = 0
    return case


TYPES = ["inner", "left", "left", "right"]


def quiet_inputs(config, steps, clock, rng):
    """Steps that move the clock of one input become what the worker finds of both: idle until a row comes."""
    config["on_idle"] = [rng.choice(["advance", "advance", "ignore"]) for _ in range(2)]
    if config["self_join"]:
        config["on_idle"] = [config["on_idle"][0]] * 2
    if not clock or "max_future" in config:
        return [s for s in steps if "clock" not in s]
    idle, out = [False, False], []
    for step in steps:
        for op in step.get("txn", []):
            for side in (0, 1):
                if op[0] == "LR"[side] or config["self_join"]:
                    idle[side] = False
        if "clock" not in step:
            out.append(step)
            continue
        for side in "LR":
            idle["LR".index(side)] |= side in step["clock"] or config["self_join"] or rng.random() < .3
        move = max(step["clock"].values())
        out.append({"quiet": [[config["on_idle"][side] if idle[side] else None, move if idle[side] else 0] for side in (0, 1)]})
    return out


def alterations(config, steps, rng):
    """Those that the server takes, and some of watermark_delay."""
    out = []
    for step in steps:
        if "timeout" in step.get("alter", {}) and (config["type"] == "inner" or config["kind"] != "wide"):
            continue
        out.append(step)
        if rng.random() < .02:
            delay = [rng.randint(0, 4), rng.randint(0, 4)]
            out.append({"alter": {"delay": [delay[0]] * 2 if config["self_join"] else delay}})
    return out if "wm" in out[-1] else out + steps[-1:]


def ties(ops, left=()):
    """Do images of the left side have the same key and time?  Then the order in which they are captured matters."""
    stamps = [(op[3], op[4]) for op in ops if op[0] == "L" and op[1] in "IU"] + list(left)
    return len(set(stamps)) < len(stamps)


def one_version_at_a_time(steps):
    """The steps, those transactions taken apart that make two versions of the same key and time."""
    out = []
    for step in steps:
        if ties(step.get("txn", [])):
            out += [dict(step, txn=[op]) for op in step["txn"]]
        else:
            out.append(step)
    return out


def change_more(case, rng):
    """What the generator has too little of: TRUNCATE, also of one partition, and rows changed twice at once (Writer.chain)."""
    steps, rows = [dict(s, txn=list(s["txn"])) if "txn" in s else s for s in case.steps], {"L": {}, "R": {}}
    with_rows = [s["txn"] for s in steps if "txn" in s]
    if with_rows and rng.random() < .25:
        ops = rng.choice(with_rows)
        ops.insert(rng.randint(0, len(ops)), [ops[0][0], "T"])
    for ops in with_rows:
        for op in ops:
            if op[1] == "T" and case.partitioned and rng.random() < .7:
                op.append(rng.choice(case.partitions()))
            elif op[1] == "T":
                rows[op[0]] = {}
            elif op[1] == "D":
                rows[op[0]].pop(op[2], None)
            elif op[1] == "I" or op[2] in rows[op[0]]:
                rows[op[0]][op[2]] = op[3:]
        side = "L" if case.self_join else rng.choice("LR")
        if case.chained and len(rows[side]) > 1 and rng.random() < .3:
            a, b = rng.sample(sorted(rows[side]), 2)
            for i in (a, b, b):
                k, ts, _ = rows[side][i]
                ts = ts + rng.choice([0, 0, -2, 3]) if isinstance(ts, int) else ts
                rows[side][i] = [k if rng.random() < .6 else rng.randint(1, 3), ts, rng.randint(1, 3)]
                ops.append([side, "U", i] + rows[side][i])
    return steps


def play(server, runs, rng, crash, eager=False):
    """Runs the cases side by side, each step of one after that of another."""
    clock = server.settable_clock and any("max_future" in r.case.config for r in runs)
    for run in runs:
        attempt(run, lambda: run.start(server), server)
    check(server, runs)
    reader = Reader([r for r in runs if not r.failure and not isinstance(r, ReplayRun)])
    reader.start()
    while not all(r.done() for r in runs):
        moving = [r for r in runs if not r.done()]
        if rng.random() < CARRIED:
            server.carry_forward()
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
    reader.finish()
    for run in runs:
        if not run.failure and not isinstance(run, ReplayRun):
            run.fail(reader.judge(run, run.contents))
    if clock:
        server.stop_clock()


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


def play_and_report(server, group, number, rng, crash, eager, kind=Run):
    """Plays a group of cases in schemas numbered from 'number'; how many failed."""
    runs = [kind(case, number + i) for i, case in enumerate(group)]
    play(server, runs, rng, crash, eager)
    for run in runs:
        if run.failure:
            print(run.report(), flush=True)
        run.drop(server)
    return sum(run.failure is not None for run in runs)


def fuzz(server, seed, rounds, modes, kind):
    """Every case compares after each step; some are played again with several steps in one batch of the worker."""
    print("seed %d, %d rounds" % (seed, rounds), flush=True)
    cases = [random_case(seed + i, server.settable_clock, modes, replays=kind is ReplayRun) for i in range(rounds)]
    rng, done, again, failed, since_crash = random.Random(seed), 0, 0, 0, 0
    for group in batches(cases):
        crash = server.thrown_away and since_crash >= CRASH_EVERY
        since_crash = len(group) if crash else since_crash + len(group)
        failed += play_and_report(server, group, done, rng, crash, eager=True, kind=kind)
        if rng.random() < TWICE:
            failed += play_and_report(server, group, done, rng, False, eager=False, kind=kind)
            again += len(group)
        done += len(group)
    if server.settable_clock:
        server.cursor.execute("SELECT sjoin_test.set_clock(NULL)")
    if kind is ReplayRun:
        print("%d late rows were handed over" % ReplayRun.total)
        failed += ReplayRun.total == 0
    print("rounds: %d passed, %d failed (seed %d)" % (done + again - failed, failed, seed))
    return failed


def load(path):
    with open(path) as file:
        items = [json.loads(line) for line in file if line.strip() and line[0] != "#"]
    config = dict(model.DEFAULTS)
    config.update(items[0]["config"])
    return Case(config, items[1:], items[0].get("render", 0), items[0].get("history", 0))


NUMBER = [0]
KIND = [Run]


def failure_of(server, case):
    NUMBER[0] += 1
    run = KIND[0](Case(case.config, case.steps, case.render, case.history), NUMBER[0])
    play(server, [run], random.Random(0), False, eager=True)
    run.drop(server)
    return run if run.failure else None


def shrink(server, case):
    """A smaller case that still fails: fewer steps, fewer rows."""
    best, smaller, kind = case, True, failure_of(server, case).kind
    while smaller:
        smaller = False
        for i in reversed(range(len(best.steps))):
            for steps in less(best.steps, i):
                candidate = Case(best.config, steps, best.render, 0 if best.history == 0 else min(best.history, len(steps)))
                failed = failure_of(server, candidate)
                if failed and failed.kind == kind:
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
    arguments.add_argument("--modes", default=MODES)
    arguments.add_argument("--file")
    arguments.add_argument("--shrink", action="store_true")
    arguments.add_argument("--replay", action="store_true")
    options = arguments.parse_args()
    KIND[0] = ReplayRun if options.replay else Run
    server = Server()
    server.prepare()
    if options.file:
        sys.exit(replay(server, options.file, options.shrink))
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    sys.exit(1 if fuzz(server, seed, options.rounds, options.modes.split(","), KIND[0]) else 0)


if __name__ == "__main__":
    main()
