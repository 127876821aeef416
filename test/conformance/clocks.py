"""Watermarks alone: of a join from those of its inputs (valve), and of a stream from its rows (boo, idle).

The inputs of a join are the channels of a valve: `IN i t` is advance_watermark(t) on the i-th, SETIDLE makes it idle
and SETACTIVE wakes it (idle.py).  One input is a stream that is joined with itself, several are as many streams.
`WM t` is the watermark of the join; where rows make it (boo, idle) Flink's is a millisecond smaller, since there t
says that everything up to t has come, and here that everything before t has.  EVENT t is a row, EMIT looks, PT t sets
the clock, and IDLE says that all inputs are.
"""
from idle import IdleServer
from netting import Netting
from server import NotSupported, Server

class ClockServer(Server):
    def stream_options(self, name):
        options = super().stream_options(name)
        options["watermark_delay"] = "%d milliseconds" % self.case.params.get("delay", 0)
        return options

    def definition(self):
        """All inputs joined; a single one with itself."""
        names = self.case.inputs
        tables = [(name, name) for name in names] + [(names, "again")] * (len(names) == 1)
        query = "SELECT %s.p AS p0, %s.p AS p1 FROM %s.%s AS %s" % (tables[0][1], tables[1][1], self.schema, *tables[0])
        for table, alias in tables[1:]:
            query += " JOIN {s}.{table} AS {alias} ON {first}.k = {alias}.k AND {alias}.ts = {first}.ts".format(
                s=self.schema, table=table, alias=alias, first=tables[0][1])
        return query, ["output_mode => '%s'" % self.mode]

    def look(self):
        """(watermark, are all inputs idle)"""
        return self.watermark(), False


class ClockIdleServer(ClockServer, IdleServer):
    def look(self):
        all_idle = self.await_idle()
        return self.watermark(), all_idle


class ClockModel:
    """The watermarks of the model."""

    def __init__(self, case):
        if len(case.inputs) > 2 or case.op == "idle" or any(step.what.startswith("SET") for step, _ in case.steps):
            raise NotSupported("the model has two inputs, which are never left out")
        delay = case.params.get("delay", 0)
        self.sides = {"A": "L", "B": "R"} if len(case.inputs) == 2 else {"A": "LR"}
        self.netting, self.n = Netting(dict(type="inner", lower=0, upper=0, delay=[delay, delay])), 0

    def insert(self, rows):
        for name, _, time, _ in rows:
            self.n += 1
            self.netting.step({"txn": [[side, "I", self.n, 1, time, 1] for side in self.sides[name]]})

    def advance(self, watermarks):
        for name, time in watermarks.items():
            self.netting.step({"wm": dict.fromkeys(self.sides[name], time)})

    def look(self):
        return self.netting.clock.W, False

    def close(self):
        pass


def act(case, player, step):
    what, arguments = step
    if what == "IN":
        player.advance({case.inputs[int(arguments[0])]: int(arguments[1])})
    elif what == "SETIDLE":
        player.become_idle(case.inputs[int(arguments[0])])
    elif what == "SETACTIVE":
        player.wake([case.inputs[int(arguments[0])]])
    elif what == "EVENT":
        player.insert([("A", "k", int(arguments[0]), None)])
    elif what == "PT":
        player.set_clock(int(arguments[0]))
    elif what != "EMIT":
        raise ValueError("%s: step %s is not of these operators" % (case.id, what))


def clocks(case, model, mode):
    """Plays a case; None or what differs."""
    idle = case.op == "idle" or any(step.what in ("SETIDLE", "SETACTIVE") for step, _ in case.steps)
    player = ClockModel(case) if model else (ClockIdleServer if idle else ClockServer)(case, mode)
    smaller, watermark, all_idle, difference = (0 if case.op == "valve" else 1), None, False, None
    for step, outputs in case.steps:
        act(case, player, step)
        for output in outputs:
            all_idle = output.kind == "IDLE"
            watermark = int(output.values[0]) if output.kind == "WM" else watermark
        if step.what not in ("EVENT", "PT"):            # Flink says nothing there
            got = player.look()
            got = (got[0] if got[0] is None else got[0] - smaller, got[1])
            if got != (watermark, all_idle) and difference is None:
                difference = "step %s: watermark and all idle: %s, not %s" % (step, got, (watermark, all_idle))
    player.close()
    return difference
