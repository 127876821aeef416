"""Inputs that become idle, by the settable clock of the test module (sjoin_test.set_clock).

What a case calls a unit of processing time is a minute of the clock, so that the time that the test itself takes does
not count.  Streams are made with on_idle => 'ignore': an idle input is left out of the minimum, as in the reference
engines.  What wakes an input, or keeps it awake, is a row without event time: it is captured and moves no watermark.
"""
import threading
import time

from server import Server

TIMEOUT = 10                                            # minutes, where the case does not say
PATIENCE = 30                                           # seconds in which an input has to be found idle
PAUSE = threading.Event()                               # never set: a pause between looks


class IdleServer(Server):
    def __init__(self, case, mode):
        super().__init__(case, mode)
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
        self.wait()

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
        self.await_idle()

    def wake(self, names):
        self.insert([(name, None, None, None) for name in names])

    def idle_inputs(self):
        """By the names of the streams, of which one may be both inputs."""
        return dict(self.ask("SELECT upper(split_part(stream, '.', -1)), bool_and(idle) FROM sjoin.stat_inputs"
                             " WHERE relid = %s::regclass GROUP BY 1", (self.schema + ".result",)))

    def await_idle(self):
        """Until each input is idle, or not, as it has to be; are all?"""
        due = {name: self.is_due(name) for name in self.case.inputs}
        self.poll(lambda: self.idle_inputs() == due, "idle inputs are not %s" % due)
        return all(due.values())

    def discard(self):
        if hasattr(self, "start"):
            self.run("SELECT sjoin_test.set_clock(NULL)")
        super().discard()
