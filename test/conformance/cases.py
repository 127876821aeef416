"""Reading cases.jsonl: one small case of a reference engine a line.

A step is one input event, with the outputs that the reference engine makes of it: "L k@1 l1 => +I l1|r1 @1".
"""
import json
import re
from collections import namedtuple

ROW = re.compile(r"^([LRABCD]) (\S+)@(\S+) (\S+)(?: ([+-][IUD]))?$")
RESULT = re.compile(r"^(\+I|-D|-U|\+U) (.*?)(?: @(-?\d+))?$")
CONTROLS = ("W WL WR IDLE PT STATE RESTORE BATCH "      # watermarks, processing time, what is kept, several rows at once
            "IN SETIDLE SETACTIVE EVENT EMIT "          # of watermarks alone
            "REG ADV SET ADD GET").split()              # of timers and of state with a ttl
OUTPUTS = ("LATE", "DROP", "TIMER", "VAL", "WM", "ERROR", "STATE", "IDLE", "ACTIVE")

Event = namedtuple("Event", "input key time payload kind")
Control = namedtuple("Control", "what arguments")
Output = namedtuple("Output", "kind values time")       # time: of a result row, where the case says it


def nothing(word):
    return None if word in ("-", "null") else word


def parse_step(line):
    """(event or control, outputs)"""
    left, _, right = line.partition(" => ")
    row = ROW.match(left)
    if row:
        source, key, time, payload, kind = row.groups()
        step = Event(source, nothing(key), None if time == "-" else int(time), nothing(payload), kind or "+I")
    else:
        what, *arguments = left.split()
        if what not in CONTROLS:
            raise ValueError("cannot read step %r" % line)
        step = Control(what, arguments)
    return step, [parse_output(o.strip()) for o in right.split(" ; ")] if right else []


def parse_output(text):
    row = RESULT.match(text)
    if row:
        return Output(row[1], [nothing(v) for v in row[2].split("|")], row[3] and int(row[3]))
    kind, *rest = text.split()
    if kind not in OUTPUTS:
        raise ValueError("cannot read output %r" % text)
    return Output(kind, rest, None)


class Case:
    def __init__(self, line):
        item = json.loads(line)
        self.id, self.op, self.params, self.note = item["id"], item["op"], item["params"], item.get("note") or ""
        self.steps = [parse_step(line) for line in item["steps"].split("\n")]
        self.inputs = "ABCD"[:self.params.get("n", 1)] if "n" in self.params or self.op in ("boo", "idle") else "LR"
        self.has_ttl = "ttl_l" in self.params
        self.unique = {name: self.op == "regular" and self.params.get("uk_" + name.lower()) != "none" for name in self.inputs}

    def type(self):
        """Of the join of two inputs; LEFT and so on."""
        if self.op == "wide":
            return "FULL"
        if self.op == "multi":
            return "LEFT" if self.params["left"][1] else "INNER"
        return {"OUTER": "FULL"}.get(self.params.get("type"), self.params.get("type", "INNER"))


def load(path):
    with open(path) as file:
        return [Case(line) for line in file if line.strip()]
