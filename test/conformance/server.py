"""The extension as a player of cases: a schema with the streams of a case and one join, "result"; the connection is libpq's."""
import os
import re
import sys
import time
from collections import Counter

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "differential"))

JOIN_WORDS = {"INNER": "JOIN", "LEFT": "LEFT JOIN", "RIGHT": "RIGHT JOIN", "FULL": "FULL JOIN"}
PATIENCE = 60                                           # seconds that a worker may take to start again


class NotSupported(Exception):
    """This release refuses the join."""


class Server:
    """What the operators share; a subclass says what the join is (definition)."""

    compared = 2                                        # columns of the result

    def __init__(self, case, mode):
        import psycopg2
        from results import Result
        self.case, self.mode, self.schema = case, mode, "conformance_" + re.sub(r"\W", "_", case.id.lower())
        self.connection = psycopg2.connect("")
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.run("CREATE EXTENSION IF NOT EXISTS sjoin")
        self.run("SET client_min_messages = warning")
        self.run("DROP SCHEMA IF EXISTS %s CASCADE" % self.schema)
        self.run("CREATE SCHEMA %s" % self.schema)
        for name in case.inputs:
            self.make_stream(name)
        query, options = self.definition()
        try:
            self.run("SELECT sjoin.create_join('%s.result', $query$%s$query$, %s)" % (self.schema, query, ", ".join(options)))
        except (psycopg2.errors.FeatureNotSupported, psycopg2.errors.SyntaxError) as error:
            self.discard()
            raise NotSupported(str(error).split("\n")[0])
        self.wait()
        self.followed = Result(self.schema, mode, self.compared)

    def run(self, statement, values=None):
        self.cursor.execute(statement, values)

    def ask(self, query, values=None):
        self.cursor.execute(query, values)
        return self.cursor.fetchall()

    # -- definitions
    def make_stream(self, name):
        self.run("CREATE TABLE %s.%s (id bigint, k text, ts timestamptz, p text, v int)" % (self.schema, name))
        options = dict(watermark_delay="0 s", idle_timeout="0 s")
        options.update(self.stream_options(name))
        self.run("SELECT sjoin.create_stream('%s.%s', 'ts', %s)" % (
            self.schema, name, ", ".join("%s => '%s'" % option for option in options.items())))

    def stream_options(self, name):
        return {}

    def definition(self):
        """(query, options) of the join"""
        raise NotImplementedError

    # -- steps
    def insert(self, rows):
        """[(input, key, event time, payload)] in one transaction"""
        self.run("BEGIN")
        for name, key, event_time, payload in rows:
            self.run("INSERT INTO %s.%s (k, ts, p) VALUES (%%s, to_timestamp(%%s), %%s)" % (self.schema, name),
                     (key, None if event_time is None else event_time / 1000, payload))
        self.run("COMMIT")

    def advance(self, watermarks):
        """{input: event time}, each a transaction of its own"""
        for name, event_time in watermarks.items():
            self.run("SELECT sjoin.advance_watermark('%s.%s', to_timestamp(%%s))" % (self.schema, name), (event_time / 1000,))

    def restart(self):
        self.wait()
        self.run("SELECT pg_terminate_backend(pid) FROM sjoin.stat_workers WHERE datname = current_database()")

    def wait(self):
        """Until everything committed is in the result; a worker that is on its way back is waited for."""
        deadline = time.monotonic() + PATIENCE
        while not self.ask("SELECT sjoin.wait_for('%s.result')" % self.schema)[0][0]:
            if time.monotonic() > deadline:
                raise SystemExit("%s: wait_for returned false" % self.case.id)

    # -- answers
    def contents(self):
        self.wait()
        return self.followed.look(self.cursor)

    def late(self):
        return Counter(self.ask("SELECT upper(input), row_data->>'p' FROM sjoin.late_rows"
                                " WHERE result = %s::regclass::text AND reason = 'late'", (self.schema + ".result",)))

    def watermark(self):
        """In milliseconds; None: there is none yet."""
        self.wait()
        return self.ask("SELECT extract(epoch FROM sjoin.watermark(%s))::float8 * 1000", (self.schema + ".result",))[0][0]

    def state_rows(self):
        return dict(self.ask("SELECT upper(input), state_rows::int FROM sjoin.stat_inputs WHERE relid = %s::regclass", (self.schema + ".result",)))

    def close(self):
        self.wait()
        rows = self.ask("SELECT * FROM sjoin.verify('%s.result') WHERE difference IN ('missing', 'extra', 'duplicate')" % self.schema)
        if rows:
            raise SystemExit("%s: verify: %s" % (self.case.id, rows))
        self.discard()

    def discard(self):
        """Also when the case was not played."""
        self.run("DROP SCHEMA %s CASCADE" % self.schema)
        self.connection.close()
