#!/usr/bin/python3
"""Small cases of the reference engines (cases.jsonl), played against a server or against the model of the rules.

  run.py [--model] [--mode changelog|upsert] [CASE ...]

One line "ok ID" or "not ok ID" per case.  A case is equal when after each step the result holds the rows that the
reference engine's output leaves; how the changes are named may differ (sjoin writes the net effect of a transaction).
A case that is not equal must be in differences.json with the sentence that says why, and one that is there must not
be equal; with --model only what the rules say counts, not what a release supports.

How cases are read: numbers are milliseconds of event time, a step is a transaction.  The joins have no time range,
which sjoin asks for: they become wide joins whose ttl nothing reaches, and rows that find no partner are padded at
once (timeout 0, all rows at one event time, both watermarks past it).  With a ttl (ttl_l, ttl_r; processing time there)
a row's event time is the processing time at which it came, and the watermarks follow it.  A side has at most one row
per key, and `+I` or `+U` of a key that is there is an UPDATE; with uk_l, uk_r "none" and in operators of several
inputs rows are told apart by their values, `+U` inserts and `-U` deletes.
"""
import argparse
import json
import os
import re
import sys
from collections import Counter, namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "differential"))
from netting import Netting

FAR = 10**9                                           # a ttl that nothing reaches
THEN = 10**6                                          # event time of all rows where time does not matter
JOIN_WORDS = {"INNER": "JOIN", "LEFT": "LEFT JOIN", "RIGHT": "RIGHT JOIN", "FULL": "FULL JOIN"}
ROW = re.compile(r"^([LRABCD]) (\S+)@(\S+) (\S+)(?: ([+-][IUD]))?$")

Event = namedtuple("Event", "input key time payload kind")
Control = namedtuple("Control", "what arguments")


class NotSupported(Exception):
    """This release refuses the join."""


# -- reading cases
def nothing(word):
    return None if word in ("-", "null") else word


def parse_step(line):
    """(event or control, outputs); an output is (kind, [values]) or (word, rest)."""
    left, _, right = line.partition(" => ")
    row = ROW.match(left)
    if row:
        source, key, time, payload, kind = row.groups()
        step = Event(source, nothing(key), None if time == "-" else int(time), nothing(payload), kind or "+I")
    else:
        what, *arguments = left.split()
        if what not in ("W", "WL", "WR", "IDLE", "PT", "STATE", "RESTORE"):
            raise ValueError("cannot read step %r" % line)
        step = Control(what, arguments)
    return step, [parse_output(o) for o in right.split(" ; ")] if right else []


def parse_output(text):
    kind, _, rest = text.strip().partition(" ")
    if kind in ("+I", "-D", "-U", "+U"):
        values, _, time = rest.partition("@")
        return kind, [nothing(v) for v in values.split("|")]
    if kind in ("LATE", "DROP", "TIMER", "VAL", "WM", "ERROR", "STATE"):
        return kind, rest.split()
    raise ValueError("cannot read output %r" % text)


class Case:
    def __init__(self, line):
        item = json.loads(line)
        self.id, self.op, self.params = item["id"], item["op"], item["params"]
        self.steps = [parse_step(line) for line in item["steps"].split("\n")]
        self.inputs = "ABCD"[:self.params["n"]] if "n" in self.params else "LR"
        self.has_ttl = "ttl_l" in self.params
        self.unique = {name: self.op == "regular" and self.params.get("uk_" + name.lower()) != "none" for name in self.inputs}

    def type(self):
        """Of the join of two inputs; LEFT and so on."""
        if self.op == "wide":
            return "FULL"
        return self.params.get("type") or ("LEFT" if self.params["left"][1] else "INNER")


class Expected:
    """The rows that a reference engine's outputs leave.  With unique keys a row replaces that of its key."""

    def __init__(self, case):
        self.keyed = all(case.unique.values()) or case.op == "wide"
        self.rows, self.bag = {}, Counter()

    def apply(self, event, outputs):
        for kind, values in outputs:
            row, sign = tuple(values), 1 if kind in ("+I", "+U") else -1
            if not self.keyed:
                self.bag[row] += sign
            elif sign > 0:
                self.rows[event.key] = row
            elif self.rows.get(event.key) == row:
                del self.rows[event.key]

    def contents(self):
        return Counter(self.rows.values()) if self.keyed else +self.bag


class Tables:
    """The input tables of a case: what an event does to them."""

    def __init__(self, case):
        self.case, self.rows, self.next, self.now = case, {name: {} for name in case.inputs}, 0, THEN

    def change(self, event):
        """("I" | "U" | "D" | None, id, (key, event time, payload))"""
        rows, unique = self.rows[event.input], self.case.unique[event.input]
        time = event.time if event.time is not None else self.now
        there = next((i for i, (key, _, payload) in rows.items() if key == event.key and (unique or payload == event.payload)), None)
        row = (event.key, time, event.payload)
        if event.kind in ("-D", "-U"):
            return ("D", there, rows.pop(there)) if there is not None else (None, None, None)
        if unique and there is not None:
            rows[there] = row
            return "U", there, row
        self.next += 1
        rows[self.next] = row
        return "I", self.next, row


# -- who plays them
class Model:
    """The rules, by the model of the random tests."""

    def __init__(self, case):
        self.case = case
        if len(case.inputs) != 2 or case.op == "wide":
            raise NotSupported("the model has two inputs and no columns that are replaced one by one")
        ttl = [case.params["ttl_l"], case.params["ttl_r"]] if case.has_ttl else [FAR, FAR]
        config = dict(type=case.type().lower(), kind="wide", ttl=ttl, timeout=0, mode="changelog", residual="lt" if "cond" in case.params else None)
        self.netting, self.payloads = Netting(config), {}

    def change(self, name, what, i, row):
        number = int(row[2].split(",")[-1]) if "cond" in self.case.params else len(self.payloads)
        side = "LR"[self.case.inputs.index(name)]
        self.payloads[i, row[1], number] = row[2]
        op = [side, what, i] if what == "D" else [side, what, i, row[0], row[1], number]
        self.netting.step({"txn": [op]})

    def watermark(self, time):
        self.netting.step({"wm": {"L": time, "R": time}})

    def contents(self):
        semi = self.case.type() in ("SEMI", "ANTI")
        bag = Counter()
        for (left, right, _), n in self.netting.result().items():
            bag[tuple(row and self.payloads[row] for row in ((left,) if semi else (left, right)))] += n
        return bag

    def close(self):
        pass


class Server:
    """The extension; the connection is libpq's."""

    def __init__(self, case, mode):
        import psycopg2
        from results import Result
        self.case, self.mode, self.schema = case, mode, "conformance_" + re.sub(r"\W", "_", case.id.lower())
        self.connection = psycopg2.connect("")
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.cursor.execute("CREATE EXTENSION IF NOT EXISTS sjoin")
        self.cursor.execute("SET client_min_messages = warning")
        self.cursor.execute("DROP SCHEMA IF EXISTS %s CASCADE" % self.schema)
        self.cursor.execute("CREATE SCHEMA %s" % self.schema)
        for name in case.inputs:
            self.cursor.execute("CREATE TABLE %s.%s (id bigint, k text, ts timestamptz, p text, v int)" % (self.schema, name))
            self.cursor.execute("SELECT sjoin.create_stream('%s.%s', 'ts', watermark_delay => '0 s', idle_timeout => '0 s')" % (self.schema, name))
        try:
            self.cursor.execute(*self.create_join())
        except (psycopg2.errors.FeatureNotSupported, psycopg2.errors.SyntaxError) as error:
            raise NotSupported(str(error).split("\n")[0])
        self.wait()
        self.followed = Result(self.schema, mode)

    def create_join(self):
        case = self.case
        options = ["output_mode => '%s'" % self.mode, "timeout => '0 s'"]
        ttl = {name: case.params.get("ttl_" + name.lower(), FAR) for name in case.inputs}
        options.append("side_ttl => '%s'" % json.dumps({name.lower(): "%d milliseconds" % t for name, t in ttl.items()}))
        if case.type() == "INNER":
            options.remove("timeout => '0 s'")
        return "SELECT sjoin.create_join('%s.result', $query$%s$query$, %s)" % (self.schema, self.query(), ", ".join(options)), None

    def query(self):
        case = self.case
        first = case.inputs[0]
        columns = ["%s.p AS p%d" % (name, i) for i, name in enumerate(case.inputs)]
        if case.type() in ("SEMI", "ANTI"):
            exists = "EXISTS (SELECT FROM {s}.R WHERE R.k = L.k)".format(s=self.schema)
            return "SELECT %s FROM %s.L WHERE %s%s" % (columns[0], self.schema, "NOT " * (case.type() == "ANTI"), exists)
        query = "SELECT %s FROM %s.%s" % (", ".join(columns), self.schema, first)
        for i, name in enumerate(case.inputs[1:], 1):
            word = ("LEFT JOIN" if case.params["left"][i] else "JOIN") if case.op == "multi" else JOIN_WORDS[case.type()]
            other = case.inputs[case.params["ref"][i]] if case.op == "multi" else first
            query += " %s %s.%s ON %s.k = %s.k" % (word, self.schema, name, name, other)
        return query + (" AND " + case.params["cond"].replace("l.", "L.").replace("r.", "R.") if "cond" in case.params else "")

    def change(self, name, what, i, row):
        table = "%s.%s" % (self.schema, name)
        values = {"id": i, "k": row[0], "t": row[1] / 1000, "p": row[2], "v": number_of(row[2])}
        self.cursor.execute({
            "I": "INSERT INTO {} VALUES (%(id)s, %(k)s, to_timestamp(%(t)s), %(p)s, %(v)s)",
            "U": "UPDATE {} SET k = %(k)s, ts = to_timestamp(%(t)s), p = %(p)s, v = %(v)s WHERE id = %(id)s",
            "D": "DELETE FROM {} WHERE id = %(id)s"}[what].format(table), values)

    def watermark(self, time):
        for name in self.case.inputs:
            self.cursor.execute("SELECT sjoin.advance_watermark('%s.%s', to_timestamp(%s))" % (self.schema, name, time / 1000))

    def wait(self):
        self.cursor.execute("SELECT sjoin.wait_for('%s.result')" % self.schema)
        if not self.cursor.fetchone()[0]:
            raise SystemExit("%s: wait_for returned false" % self.case.id)

    def contents(self):
        self.wait()
        bag = self.followed.look(self.cursor)         # of the first two columns
        if self.case.type() in ("SEMI", "ANTI"):
            return Counter({row[:1]: n for row, n in bag.items()})
        return bag

    def close(self):
        self.cursor.execute("SELECT * FROM sjoin.verify('%s.result') WHERE difference IN ('missing', 'extra', 'duplicate')" % self.schema)
        rows = self.cursor.fetchall()
        if rows:
            raise SystemExit("%s: verify: %s" % (self.case.id, rows))
        self.cursor.execute("DROP SCHEMA %s CASCADE" % self.schema)
        self.connection.close()


def number_of(payload):
    last = payload.split(",")[-1]
    return int(last) if last.isdigit() else None


def play(case, player):
    """None when all steps are equal, else the first that is not."""
    tables, expected = Tables(case), Expected(case)
    if not case.has_ttl:
        player.watermark(THEN + 1)
    difference = None
    for n, (step, outputs) in enumerate(case.steps):
        if isinstance(step, Control):
            if step.what != "PT":
                raise ValueError("%s: step %s is not of these operators" % (case.id, step.what))
            tables.now = int(step.arguments[0])
            if case.has_ttl:
                player.watermark(tables.now)
            continue
        what, i, row = tables.change(step)
        if what:
            player.change(step.input, what, i, row)
        expected.apply(step, outputs)
        got, want = player.contents(), expected.contents()
        if got != want and difference is None:
            difference = "step %d %s: missing %s, extra %s" % (n + 1, step, list((want - got).elements()), list((got - want).elements()))
    player.close()
    return difference


def outcome(case, options):
    try:
        return play(case, Model(case) if options.model else Server(case, options.mode))
    except NotSupported as refusal:
        return "not supported: %s" % refusal


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", action="store_true")
    arguments.add_argument("--mode", default="changelog")
    arguments.add_argument("cases", nargs="*")
    options = arguments.parse_args()
    with open(os.path.join(HERE, "cases.jsonl")) as file:
        cases = [Case(line) for line in file if line.strip()]
    with open(os.path.join(HERE, "differences.json")) as file:
        differences = json.load(file)
    failed = 0
    for case in cases:
        if options.cases and case.id not in options.cases:
            continue
        found, listed = outcome(case, options), differences.get(case.id)
        if options.model and (found or "").startswith("not supported"):
            continue
        good = bool(found) == bool(listed) or options.model and listed and "not supported" in listed
        failed += not good
        print("%s %s%s" % ("ok" if good else "not ok", case.id, " # %s" % (listed if good and listed else found) if found or listed else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
