"""Reading results: what is in one, what its changelog says, and a reader that looks all the time.

Whoever reads a result sees the state after some step, and later states later: never half a step (R6), never back.
Whoever follows sjoin_seq in append or changelog mode misses nothing and sees nothing twice (R4).
"""
import threading
from collections import Counter

import psycopg2
from psycopg2.extensions import ISOLATION_LEVEL_REPEATABLE_READ

BETWEEN_LOOKS = .01
SHUTDOWN = "57P"                                      # class of the errors with which a server goes away
META = ("sjoin_id", "sjoin_version", "sjoin_at", "sjoin_seq", "sjoin_op", "sjoin_task")


class Broken(Exception):
    """The result contradicts itself."""


def demand(condition, what):
    if not condition:
        raise Broken(what)


class Replay:
    """A table made from its changelog, record by record; `bag`: of its first columns."""

    def __init__(self, compared):
        self.rows, self.seq, self.replaced, self.bag, self.compared = {}, 0, None, Counter(), compared

    def apply(self, seq, op, identity, version, values):
        where = "changelog %s %s %s version %s: " % (seq, op, identity, version)
        demand(seq == self.seq + 1, where + "sjoin_seq follows %s" % self.seq)
        self.seq = seq
        demand((op == "+U") == (self.replaced is not None), where + "-U and +U are not in pairs")
        if op in ("-U", "-D"):
            demand(identity in self.rows, where + "retracts a row that is not there")
            demand(self.rows[identity] == (version, values), where + "%s, the row is %s" % (values, self.rows[identity]))
            del self.rows[identity]
            self.count(values, -1)
            self.replaced = (identity, version) if op == "-U" else None
            return
        demand(op in ("+I", "+U"), where + "unknown operation")
        demand(identity not in self.rows, where + "the row is there already")
        demand((identity, version) == (self.replaced[0], self.replaced[1] + 1) if op == "+U" else version == 1,
               where + "comes after %s" % (self.replaced,))
        self.rows[identity], self.replaced = (version, values), None
        self.count(values, 1)

    def count(self, values, n):
        shown = values[:self.compared]
        self.bag[shown] += n
        if not self.bag[shown]:
            del self.bag[shown]


class Result:
    """The result of one join and how far it has been followed."""

    def __init__(self, schema, mode, compared=2):
        self.name, self.mode, self.replay, self.columns, self.compared = schema + ".result", mode, Replay(compared), None, compared

    def look(self, cursor):
        """What is in it as a bag of its first columns, (l_id, r_id); in append and changelog only what is new is read."""
        if self.columns is None:
            cursor.execute("SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum", (self.name,))
            self.columns = ", ".join(a for a, in cursor.fetchall() if a not in META)
        if self.mode == "upsert":
            cursor.execute("SELECT sjoin_id, sjoin_version, %s FROM %s" % (self.columns, self.name))
            return self.table(cursor.fetchall())
        op = "sjoin_op" if self.mode == "changelog" else "'+I'"
        cursor.execute("SELECT sjoin_seq, %s, sjoin_id, sjoin_version, %s FROM %s WHERE sjoin_seq > %%s ORDER BY sjoin_seq" % (
            op, self.columns, self.name), (self.replay.seq,))
        for seq, op, identity, version, *values in cursor.fetchall():
            self.replay.apply(seq, op.strip(), identity, version, tuple(values))
        demand(self.replay.replaced is None, "the changelog ends with a -U")
        return Counter(self.replay.bag)

    def table(self, rows):
        demand(all(version >= 1 for _, version, *_ in rows), "sjoin_version below 1")
        demand(len({row[0] for row in rows}) == len(rows), "sjoin_id is not unique")
        return Counter(tuple(row[2:2 + self.compared]) for row in rows)


class Reader(threading.Thread):
    """Looks at the results of some runs until it is told to stop; what it saw of each, in order, without repetitions."""

    def __init__(self, runs):
        super().__init__(daemon=True)
        self.results = {run: Result(run.schema, run.case.config["mode"]) for run in runs}
        self.seen = {run: [] for run in runs}
        self.problem, self.stopped, self.connection = {}, threading.Event(), None

    def run(self):
        while not self.stopped.is_set():
            self.try_to_look()
            self.stopped.wait(BETWEEN_LOOKS)

    def finish(self):
        """Stops, after a last look."""
        self.stopped.set()
        self.join()
        self.try_to_look()
        if self.connection:
            self.connection.close()

    def try_to_look(self):
        try:
            if self.connection is None:
                self.connection = psycopg2.connect("")
                self.connection.set_session(isolation_level=ISOLATION_LEVEL_REPEATABLE_READ, readonly=True)
            with self.connection:                     # one snapshot for all
                self.look()
        except psycopg2.Error as error:
            if error.pgcode and not error.pgcode.startswith(SHUTDOWN):
                raise
            self.connection = None                    # the server is restarting

    def look(self):
        with self.connection.cursor() as cursor:
            for run, result in self.results.items():
                if run in self.problem:
                    continue
                try:
                    bag = result.look(cursor)
                except Broken as broken:
                    self.problem[run] = str(broken)
                    continue
                if not self.seen[run] or self.seen[run][-1] != bag:
                    self.seen[run].append(bag)

    def judge(self, run, contents):
        """None, or what is wrong with what was seen; `contents`: of the result after each step."""
        if run in self.problem:
            return self.problem[run]
        step = 0
        for bag in self.seen[run]:
            found = next((i for i in range(step, len(contents)) if contents[i] == bag), None)
            if found is None:
                return "a reader saw what was never the result after step %d: %s" % (step, sorted(bag.elements(), key=repr))
            step = found
        if self.seen[run] and self.seen[run][-1] != contents[-1]:
            return "a reader ended with %s" % sorted(self.seen[run][-1].elements(), key=repr)
        return None
