"""State with a time to live, as the left side of a join: what is there is what a row of the right side finds.

PT t   both watermarks are advanced to t, and rows get this event time: a ttl counts event time here.
SET v  a row of the stream L, whose upsert key is the key of the join: the newest version replaces older ones.
ADD v  rows of the stream L, one for each value.
GET    a row of the stream R; the pairs that it makes are the answer (VAL).
"""
import json
from collections import Counter

from netting import Netting
from server import Server


class TtlServer(Server):
    def stream_options(self, name):
        return {"upsert_key": "{k}"} if name == "L" and self.case.params["kind"] == "value" else {}

    def definition(self):
        ttl = {"l": "%d milliseconds" % self.case.params["ttl"], "r": "1 millisecond"}
        return ("SELECT L.p AS p0, R.p AS p1 FROM {s}.L JOIN {s}.R ON L.k = R.k".format(s=self.schema),
                ["output_mode => '%s'" % self.mode, "side_ttl => '%s'" % json.dumps(ttl)])


class TtlModel:
    def __init__(self, case):
        self.rows = []
        self.netting = Netting(dict(type="inner", kind="wide", ttl=[case.params["ttl"], 1], mode="changelog",
                                    upsert_key=case.params["kind"] == "value"))

    def insert(self, rows):
        for row in rows:
            self.rows.append(row)
            name, _, time, _ = row
            self.netting.step({"txn": [[name, "I", len(self.rows) - 1, 1, time, 1]]})

    def advance(self, watermarks):
        self.netting.step({"wm": watermarks})

    def contents(self):
        return Counter(tuple(self.rows[row[0]][3] for row in pair[:2]) for pair in self.netting.result().elements())

    def close(self):
        pass


def ttl(case, model, mode):
    """Plays a case; None or what differs."""
    player = TtlModel(case) if model else TtlServer(case, mode)
    now, gets, difference = 0, 0, None
    for step, outputs in case.steps:
        if step.what == "PT":
            now = int(step.arguments[0])
            player.advance({"L": now, "R": now})
        elif step.what in ("SET", "ADD"):
            player.insert([("L", "k", now, value) for value in step.arguments])
        elif step.what == "GET":
            gets += 1
            player.insert([("R", "k", now, "get %d" % gets)])
            got = sorted(left for left, right in player.contents().elements() if right == "get %d" % gets)
            want = sorted(value for output in outputs for value in output.values if value != "empty")
            if got != want and difference is None:
                difference = "GET at %d: %s, not %s" % (now, got, want)
        else:
            raise ValueError("%s: step %s is not of this operator" % (case.id, step.what))
    player.close()
    return difference
