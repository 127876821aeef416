"""Regular joins, joins of several inputs, wide rows: cases in which event time does not matter, or only as a ttl.

They become wide joins whose ttl nothing reaches, and rows that find no partner are padded at once (timeout 0, all
rows at one event time, both watermarks past it).  With a ttl (ttl_l, ttl_r; processing time there) a row's event time
is the processing time at which it came, and the watermarks follow it.  A side has at most one row per key, and `+I`
or `+U` of a key that is there is an UPDATE; with uk_l, uk_r "none" and in operators of several inputs rows are told
apart by their values, `+U` inserts and `-U` deletes.
"""
import json
from collections import Counter

from cases import Control
from netting import Netting
from server import JOIN_WORDS, NotSupported, Server

FAR = 10**9                                             # a ttl that nothing reaches
THEN = 10**6                                            # event time of all rows where time does not matter


class Expected:
    """The rows that a reference engine's outputs leave.  With unique keys a row replaces that of its key."""

    def __init__(self, case):
        self.keyed = all(case.unique.values()) or case.op == "wide"
        self.rows, self.bag = {}, Counter()

    def apply(self, event, outputs):
        for kind, values, _ in outputs:
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


class KeyedModel:
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

    def advance(self, watermarks):
        self.netting.step({"wm": {"LR"[self.case.inputs.index(name)]: time for name, time in watermarks.items()}})

    def contents(self):
        semi = self.case.type() in ("SEMI", "ANTI")
        bag = Counter()
        for (left, right, _), n in self.netting.result().items():
            bag[tuple(row and self.payloads[row] for row in ((left,) if semi else (left, right)))] += n
        return bag

    def close(self):
        pass


class KeyedServer(Server):
    def definition(self):
        case = self.case
        options = ["output_mode => '%s'" % self.mode, "timeout => '0 s'"]
        ttl = {name: case.params.get("ttl_" + name.lower(), FAR) for name in case.inputs}
        options.append("side_ttl => '%s'" % json.dumps({name.lower(): "%d milliseconds" % t for name, t in ttl.items()}))
        if case.type() == "INNER":
            options.remove("timeout => '0 s'")
        return self.query(), options

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
        self.run({
            "I": "INSERT INTO {} VALUES (%(id)s, %(k)s, to_timestamp(%(t)s), %(p)s, %(v)s)",
            "U": "UPDATE {} SET k = %(k)s, ts = to_timestamp(%(t)s), p = %(p)s, v = %(v)s WHERE id = %(id)s",
            "D": "DELETE FROM {} WHERE id = %(id)s"}[what].format(table), values)

    def contents(self):
        bag = super().contents()                        # of the first two columns
        if self.case.type() in ("SEMI", "ANTI"):
            return Counter({row[:1]: n for row, n in bag.items()})
        return bag


def number_of(payload):
    last = payload.split(",")[-1]
    return int(last) if last.isdigit() else None


def play(case, player):
    """None when all steps are equal, else the first that is not."""
    tables, expected = Tables(case), Expected(case)
    if not case.has_ttl:
        player.advance(dict.fromkeys(case.inputs, THEN + 1))
    difference = None
    for n, (step, outputs) in enumerate(case.steps):
        if isinstance(step, Control):
            if step.what != "PT":
                raise ValueError("%s: step %s is not of these operators" % (case.id, step.what))
            tables.now = int(step.arguments[0])
            if case.has_ttl:
                player.advance(dict.fromkeys(case.inputs, tables.now))
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
