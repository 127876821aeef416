"""Inputs that become idle, by the settable clock of the test module (sjoin_test.set_clock).

What a case calls a unit of processing time is a minute of the clock, so that the time that the test itself takes does
not count.  Streams are made with on_idle => 'ignore': an idle input is left out of the minimum, as in the reference
engines.  What wakes an input, or keeps it awake, is a row without event time: it is captured and moves no watermark.
As long as no view says which inputs are idle, it is told by the watermark that follows from it.
"""
import threading
import time

from server import NotSupported, Server

TIMEOUT = 10                                            # minutes, where the case does not say
PATIENCE = 30                                           # seconds in which an input has to be found idle
PAUSE = threading.Event()                               # never set: a pause between looks


class IdleServer(Server):
    def __init__(self, case, mode):
        super().__init__(case, mode)
        self.shown, self.newest, self.moved_to = None not in self.idle_inputs().values(), {}, None
        if not self.shown and any(output.kind in ("IDLE", "ACTIVE") for _, outputs in case.steps for output in outputs):
            self.discard()
            raise NotSupported("no view says which inputs are idle")
        self.run("CREATE EXTENSION IF NOT EXISTS sjoin_test")
        self.start, self.last_row = self.ask("SELECT now()")[0][0], dict.fromkeys(case.inputs, 0)
        self.set_clock(0)

    def timeout(self):
        return self.case.params.get("timeout", TIMEOUT)

    def stream_options(self, name):
        return dict(idle_timeout="%d min" % self.timeout(), on_idle="ignore")

    def set_clock(self, minutes):
        self.rest()
        self.minutes = minutes
        self.run("SELECT sjoin_test.set_clock(%s + %s * interval '1 min')", (self.start, minutes))

    def rest(self):
        """Until the worker has nothing to do: only time that passes then counts."""
        self.wait()
        self.poll(lambda: self.ask("SELECT bool_and(wait_event_type = 'Extension') FROM sjoin.stat_workers WHERE datname = current_database()")[0][0],
                  "the worker does not rest")

    def poll(self, condition, complaint):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit("%s: %s" % (self.case.id, complaint))
            PAUSE.wait(.02)

    def insert(self, rows):
        super().insert(rows)
        self.last_row.update((name, self.minutes) for name, *_ in rows)
        self.note({name: time for name, _, time, _ in rows if time is not None})
        self.wait()

    def advance(self, watermarks):
        super().advance(watermarks)
        self.note(watermarks)

    def note(self, times):
        """Newest times of inputs, and the watermark that T7 makes of them: an idle input does not count, unless all are."""
        for name, event_time in times.items():
            self.newest[name] = max(self.newest.get(name, event_time), event_time)
        awake = [self.newest.get(name) for name in self.case.inputs if not self.is_due(name)]
        if awake and None not in awake:
            self.moved_to = min(awake) if self.moved_to is None else max(self.moved_to, min(awake))
        elif not awake and self.newest:
            self.moved_to = max(self.newest.values())

    def is_due(self, name):
        """Has it to be idle (T7)?"""
        return self.minutes - self.last_row[name] >= self.timeout()

    def become_idle(self, name):
        """The timeout passes and a bit, in two parts; the other inputs that are awake get a row after each."""
        others = [other for other in self.case.inputs if other != name and not self.is_due(other)]
        for part in (0, .6, .6):
            self.set_clock(self.minutes + self.timeout() * part)
            if others:
                self.wake(others)
        self.note({})
        self.await_idle()

    def wake(self, names):
        self.insert([(name, None, None, None) for name in names])

    def idle_inputs(self):
        return dict(self.ask("SELECT upper(input), idle FROM sjoin.stat_inputs WHERE relid = %s::regclass", (self.schema + ".result",)))

    def await_idle(self):
        """Until each input is idle, or not, as it has to be; are all?"""
        due = {name: self.is_due(name) for name in self.case.inputs}
        self.poll(lambda: self.idle_inputs() == due if self.shown else self.watermark() == self.moved_to, "idle inputs are not %s" % due)
        return all(due.values())

    def discard(self):
        if hasattr(self, "start"):
            self.run("SELECT sjoin_test.set_clock(NULL)")
        super().discard()
