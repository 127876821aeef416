"""Interval joins, and timers: cases in which event time decides.

Every step is a transaction.  `W t` is advance_watermark(t) on both inputs, `W MAX` a time after all rows.  Rows move
the watermarks as well (watermark_delay 0, or the delay of the case); where a case has rows that are ahead of
watermarks which it sets afterwards, or rows in any order of which none is late, the delay is such that rows move
nothing.  In detail

    ds_interval   r.ts between l.ts + lower and l.ts + upper; allowed lateness 0.
    sql_interval  l.ts between r.ts + lower and r.ts + upper; the default allowed lateness, which is the widest bound.
    kafka         r.ts between l.ts - before and l.ts + after; allowed lateness grace + max(before, after).  After each
                  row both inputs are advanced to the greatest time so far, which is Kafka's stream time.  A row
                  without a value is ignored there: a filter here.
    spark         l.ts between r.ts - lo and r.ts + hi, in milliseconds; allowed lateness 0.
    timers        a timer of a key is the deadline of a left row that finds no partner (bounds 0 .. 0).

Compared are, after every step, the rows of the result (where the case says so, with their time, the greater of the
two), late rows where the case has any, the watermark of the join, and what is kept.  In sql_interval `WM t` is the
watermark held back by the widest bound, which is the horizon here.  `STATE` lists rows that are still kept: sjoin
must keep them too, and keeps more where a partner that is exactly at the horizon can still come, or with the default
allowed lateness.  Its count of rows in state is not less than what must be kept, and 0 when that is nothing (rows
leave together with others of about the same time).
Where the note of a case says that another order gives the same rows, it is played with the right side first as well,
and compared at the end; with "Any arrival order" at the end only.
"""
import re
from collections import Counter

from cases import Control, Event, Output
from idle import IdleServer
from netting import Netting
from server import JOIN_WORDS, NotSupported, Server

FAR = 10**9                                             # event time after all rows
MS = 1000                                               # a microsecond is the model's unit
WINDOW = 10                                             # length of Spark's windows
ANY_ORDER = "Any arrival order"
RIGHT_FIRST = ("all R before all L", ANY_ORDER)
EXCLUDED = re.compile(r"([lr])\.id *(?:<>|=) *'(\w+)'")


class Reading:
    """What the parameters of a case mean."""

    def __init__(self, case):
        p, op = case.params, case.op
        self.open = [not p.get("li", 1), not p.get("ui", 1)]
        self.lateness, self.held_back, self.delay = 0, 0, [0, 0]
        if op == "ds_interval":
            self.bounds = p["lower"], p["upper"]
        elif op == "sql_interval":
            self.bounds = -p["upper"], -p["lower"]
            self.lateness = self.held_back = max(0, self.bounds[1], -self.bounds[0])
        elif op == "kafka":
            self.bounds = -p["before"], p["after"]
            self.lateness = p["grace"] + max(p["before"], p["after"])
        elif op == "spark":
            self.bounds, self.delay = (-p.get("hi", WINDOW), p.get("lo", WINDOW)), p["delay"]
        else:
            self.bounds = 0, 0
        self.type = "LEFT" if op == "timers" else case.type()
        if rows_lead(case):
            self.delay = [FAR, FAR]

    def default_lateness(self, case):
        return case.op == "sql_interval"


def rows_lead(case):
    """Does the case set watermarks that its rows are ahead of, or say that none of its rows is late?"""
    if ANY_ORDER in case.note:
        return True
    newest = {"L": -FAR, "R": -FAR}
    for move in moves(case):
        if move.what == "rows":
            for name, _, time, _ in move.given:
                newest[name] = max(newest[name], time)
        elif move.what == "watermark" and any(time < newest[name] for name, time in move.given.items()):
            return True
    return False


class Move:
    """A step as both players are told it: what, what is given, and what the reference engine said."""

    def __init__(self, what, given, outputs, step):
        self.what, self.given, self.outputs, self.step = what, given, outputs, step


def moves(case):
    """The steps of the case; after each row of Kafka's a second move, the stream time."""
    newest = -FAR
    for step, outputs in case.steps:
        move = read(case, step, outputs)
        if case.op == "kafka":
            yield Move(move.what, move.given, None, step)
            newest = max(newest, step.time)
            yield Move("watermark", {"L": newest, "R": newest}, outputs, step)
        else:
            yield move


def read(case, step, outputs):
    if isinstance(step, Event):
        return Move("rows", [(step.input, step.key, step.time, step.payload)], outputs, step)
    what, arguments = step
    if what in ("W", "WL", "WR", "ADV"):
        time = FAR if arguments == ["MAX"] else int(arguments[0])
        return Move("watermark", dict.fromkeys({"WL": "L", "WR": "R"}.get(what, "LR"), time), outputs, step)
    if what == "BATCH":
        rows = [re.match(r"([LR])(\w+)@(\d+)", word).groups() for word in arguments]
        return Move("rows", [(name, key, int(time), "%s%s@%s" % (name.lower(), key, time)) for name, key, time in rows], outputs, step)
    if what == "REG":
        key, time = arguments
        return Move("rows", [("L", key, int(time), "%s %s" % (key, time))], outputs, step)
    if what == "RESTORE":
        return Move("restart", None, outputs, step)
    if what == "IDLE":
        return Move("idle", arguments[0], outputs, step)
    if what == "STATE":
        return Move("state", arguments, outputs, step)
    raise ValueError("%s: step %s is not of these operators" % (case.id, what))


# -- who plays them
class TimedModel:
    """The rules, by the model of the random tests."""

    def __init__(self, case):
        if case.params.get("mode") == "window":
            raise NotSupported("windows are not read for the model")
        self.case, self.reading = case, Reading(case)
        self.excluded = dict(EXCLUDED.findall(case.params.get("cond", "")))
        self.wants_value = any(row[3] is None for move in moves(case) if move.what == "rows" for row in move.given)
        reading = self.reading
        config = dict(type=reading.type.lower(), kind="interval", lower=reading.bounds[0] * MS, upper=reading.bounds[1] * MS,
                      lower_open=reading.open[0], upper_open=reading.open[1], mode="changelog", delay=[d * MS for d in reading.delay],
                      allowed_lateness=None if reading.default_lateness(case) else reading.lateness * MS,
                      residual="lt" if self.excluded else None, filter=[1, 1] if self.wants_value else [None, None])
        self.netting, self.rows, self.count = Netting(config), {}, Counter()

    def value(self, name, payload):
        """Such that l.v < r.v is the condition of the case, and NULL where there is no payload."""
        if payload is None:
            return None
        low, high = (1, 9) if name == "L" else (5, 0)
        return high if self.excluded.get(name.lower()) == payload else low

    def insert(self, rows):
        ops = []
        for name, key, time, payload in rows:
            self.rows[len(self.rows)] = (name, payload, time)
            ops.append([name, "I", len(self.rows) - 1, key, time * MS, self.value(name, payload)])
        self.netting.step({"txn": ops})
        self.count.update(self.rows[i][:2] for _, i, reason in self.netting.late if reason == "late")

    def advance(self, watermarks):
        for name, time in watermarks.items():
            self.netting.step({"wm": {name: time * MS}})

    def restart(self):
        pass

    def become_idle(self, name):
        raise NotSupported("the model has no inputs that are left out")

    def contents(self):
        bag = Counter()
        for (left, right, _), n in self.netting.result().items():
            bag[tuple(row and self.rows[row[0]][1] for row in (left, right)) + (max(row[1] for row in (left, right) if row) // MS,)] += n
        return bag

    def late(self):
        return self.count

    def watermark(self):
        clock = self.netting.clock
        return None if clock.W is None else clock.W / MS

    def state_rows(self):
        return None

    def close(self):
        pass


class TimedServer(Server):
    compared = 3

    def __init__(self, case, mode):
        self.reading = Reading(case)
        super().__init__(case, mode)

    def stream_options(self, name):
        options = super().stream_options(name)
        options["watermark_delay"] = "%d milliseconds" % self.reading.delay["LR".index(name)]
        return options

    def definition(self):
        options = ["output_mode => '%s'" % self.mode, "late_rows => 'keep'"]
        if not self.reading.default_lateness(self.case):
            options.append("allowed_lateness => '%d milliseconds'" % self.reading.lateness)
        return self.query(), options

    def query(self):
        low, high = self.reading.bounds
        on = ["L.k = R.k", "R.ts %s L.ts + interval '%d milliseconds'" % (">" if self.reading.open[0] else ">=", low),
              "R.ts %s L.ts + interval '%d milliseconds'" % ("<" if self.reading.open[1] else "<=", high)]
        where = ""
        if self.case.params.get("mode") == "window":
            on.append("date_bin('{0} ms', L.ts, 'epoch') = date_bin('{0} ms', R.ts, 'epoch')".format(WINDOW))
        if self.case.op == "kafka":
            on.append("R.p IS NOT NULL")
            where = " WHERE L.p IS NOT NULL"
        if "cond" in self.case.params:
            on.append(re.sub(r"\b([lr])\.id\b", r"\1.p", self.case.params["cond"]))
        return "SELECT L.p AS p0, R.p AS p1, greatest(L.ts, R.ts) AS at FROM {s}.L {word} {s}.R ON {on}{where}".format(
            s=self.schema, word=JOIN_WORDS[self.reading.type], on=" AND ".join(on), where=where)

    def contents(self):
        bag = Counter()
        for (left, right, at), n in super().contents().items():
            bag[left, right, round(at.timestamp() * 1000)] += n
        return bag


class TimedIdleServer(TimedServer, IdleServer):
    """For cases with inputs that become idle."""


# -- playing
class Kept:
    """What each input has to keep: accepted rows until the horizon is past their last partner (T5)."""

    def __init__(self, reading):
        self.reading, self.rows, self.horizon = reading, {"L": [], "R": []}, -float("inf")
        low, high = reading.bounds
        self.reach = {"L": max(0, high), "R": max(0, -low)}

    def took(self, rows):
        """The clock of before these rows counts."""
        for name, _, time, _ in rows:
            if time >= self.horizon:
                self.rows[name].append(time)

    def moved(self, watermark):
        if watermark is not None:
            self.horizon = max(self.horizon, watermark - self.reading.lateness)

    def at(self, name):
        return sorted(time for time in self.rows[name] if self.horizon <= time + self.reach[name])

    def difference(self, listed, state_rows):
        """listed: 'L:2,3 R:', or one number for both inputs."""
        if len(listed) == 1 and listed[0].isdigit():
            if int(listed[0]) != len(self.at("L")) + len(self.at("R")):
                return "rows kept: L %s, R %s" % (self.at("L"), self.at("R"))
        else:
            for name, times in (word.split(":") for word in listed):
                missing = Counter(int(time) for time in times.split(",") if time) - Counter(self.at(name))
                if missing:
                    return "rows of %s not kept: %s" % (name, list(missing.elements()))
        for name, n in (state_rows or {}).items():
            least = len(self.at(name))
            if not (least <= n <= len(self.rows[name]) if least else n == 0):
                return "%d rows of %s in state, not %d" % (n, name, least)
        return None


class Follower:
    """What the outputs of the reference engine leave, and how the player's answers differ from it."""

    def __init__(self, case, player):
        self.case, self.player, self.reading = case, player, player.reading
        self.rows, self.late, self.watermark, self.times = Counter(), Counter(), None, Counter()
        self.kept = Kept(player.reading)
        self.has_late = any(output.kind in ("LATE", "DROP") for _, outputs in case.steps for output in outputs) or case.op == "ds_interval"

    def expect(self, move):
        for output in move.outputs:
            if output.kind == "+I":
                self.rows[tuple(output.values)] += 1
                if output.time is not None:
                    self.times[tuple(output.values) + (output.time,)] += 1
            elif output.kind == "TIMER":
                self.rows[" ".join(output.values), None] += 1
            elif output.kind == "WM":
                self.watermark = int(output.values[0])
            elif output.kind == "LATE":
                self.late[tuple(output.values)] += 1
            elif output.kind == "DROP":
                self.late[move.step.input, move.step.payload] += 1
            else:
                raise ValueError("%s: output %s is not of these operators" % (self.case.id, output))

    def compare_rows(self):
        contents = self.player.contents()
        got = Counter()
        for row, n in contents.items():
            got[row[:2]] += n
        if got != self.rows:
            return "missing %s, extra %s" % (list((self.rows - got).elements()), list((got - self.rows).elements()))
        if self.times - contents:
            return "rows at other times than %s" % list((self.times - contents).elements())
        return None

    def compare_watermark(self):
        watermark = self.player.watermark()
        self.kept.moved(watermark)
        if self.watermark is None:
            return None
        got = watermark - self.reading.held_back
        return None if got == self.watermark else "watermark %s, not %s" % (got, self.watermark)

    def compare(self, move):
        """None, or what differs after a move."""
        difference = self.compare_rows()
        if self.has_late and self.player.late() != self.late:
            difference = difference or "late rows %s, not %s" % (sorted(self.player.late()), sorted(self.late))
        of_clock = self.compare_watermark()
        if any(output.kind == "WM" for output in move.outputs):
            difference = difference or of_clock
        if move.what == "state":
            difference = difference or self.kept.difference(move.given, self.player.state_rows())
        return difference


def act(player, follower, move):
    if move.what == "rows":
        player.insert(move.given)
        follower.kept.took(move.given)
    elif move.what == "watermark":
        player.advance(move.given)
    elif move.what == "restart":
        player.restart()
    elif move.what == "idle":
        player.become_idle(move.given)


def play(case, player):
    """None when all steps are equal, else the first that is not."""
    follower, difference = Follower(case, player), None
    steps = list(moves(case))
    for move in steps:
        act(player, follower, move)
        if move.outputs is None:
            continue
        follower.expect(move)
        found = follower.compare(move) if ANY_ORDER not in case.note or move is steps[-1] else None
        if found and difference is None:
            difference = "step %s: %s" % (move.step, found)
    player.close()
    return difference


def right_first(case, player):
    """The other order: all that the right side has comes first; None when the same rows are there at the end."""
    follower = Follower(case, player)
    in_order = sorted(moves(case), key=lambda move: ["R", "L", "LR"].index(
        move.given[0][0] if move.what == "rows" else "".join(sorted(move.given))))
    for move in in_order:
        act(player, follower, move)
        follower.expect(move)
    difference = follower.compare_rows()
    player.close()
    return difference and "right side first: " + difference


def timed(case, model, mode):
    """Plays a case; None or what differs."""
    if "chain" in case.params:
        raise NotSupported("nothing that comes out can set a deadline of its own")
    idle = any(isinstance(step, Control) and step.what == "IDLE" for step, _ in case.steps)
    make = TimedModel if model else lambda case: (TimedIdleServer if idle else TimedServer)(case, mode)
    difference = play(case, make(case))
    if difference is None and any(words in case.note for words in RIGHT_FIRST):
        difference = right_first(case, make(case))
    return difference
