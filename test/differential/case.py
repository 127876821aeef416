"""One random case as SQL: the model's configuration and steps, spelled for a server.

A unit of the model's time is one microsecond, millisecond, second or minute, drawn per case.  The same
configuration can be written in SQL in many ways; which one is drawn from the case's own `render` seed, so that a
case printed on failure is replayed with the same spelling.
"""
import datetime
import io
import random
from collections import Counter

BASE = datetime.datetime(2024, 1, 1)
UNITS = {"us": "microseconds", "ms": "milliseconds", "s": "seconds", "min": "minutes"}
SCALE = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6}
REASONS_KEPT = ("late", "null_event_time", "infinite")


class Case:
    """A case in its own schema.  `history`: how many first transactions are there before the join is made."""

    def __init__(self, config, steps, render, history=0):
        self.config, self.steps, self.render, self.history = config, steps, render, history
        rng = random.Random(render)
        self.unit = "s" if config.get("max_future") is not None else rng.choice(list(UNITS))
        self.time_type = rng.choice(["timestamptz", "timestamptz", "timestamp"])
        self.swapped = rng.random() < .5              # the join written from the right table's side
        self.rng = rng
        self.self_join = config.get("self_join", False)

    # -- values
    def interval(self, n):
        return "interval '%d %s'" % (n, UNITS[self.unit])

    def shifted(self, column, n):
        """column + n units, in one of its spellings."""
        if n == 0 and self.rng.random() < .7:
            return column
        if n < 0 and self.rng.random() < .5:
            return "%s - %s" % (column, self.interval(-n))
        return "%s + %s" % (column, self.interval(n))

    def time(self, t):
        if t is None:
            return None
        if isinstance(t, str):
            return {"inf": "infinity", "-inf": "-infinity"}[t]
        stamp = (BASE + datetime.timedelta(microseconds=t * SCALE[self.unit])).isoformat(" ")
        return stamp if self.time_type == "timestamp" else stamp + "+00"

    def time_with_zone(self, t):
        """As advance_watermark and the clock take it, whatever the type of the column."""
        return self.time(t).removesuffix("+00") + "+00"

    # -- definitions
    def tables(self, schema):
        self.schema = schema
        for name in ("l",) if self.self_join else ("l", "r"):
            yield "CREATE TABLE %s.%s (id bigint, k int, ts %s, v int)" % (schema, name, self.time_type)

    def streams(self):
        future = self.config.get("max_future")
        for i, name in enumerate(("l",) if self.self_join else ("l", "r")):
            yield ("SELECT sjoin.create_stream('%s.%s', 'ts', watermark_delay => %s, idle_timeout => '0'%s)"
                   % (self.schema, name, self.interval(self.config["delay"][i]),
                      "" if future is None else ", max_future => " + self.interval(future)))

    def query(self):
        c, rng = self.config, self.rng
        tables = ["%s.l AS l" % self.schema, "%s.%s AS r" % (self.schema, "l" if self.self_join else "r")]
        word = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN"}[c["type"]]
        if self.swapped:
            tables.reverse()
            word = {"LEFT JOIN": "RIGHT JOIN", "RIGHT JOIN": "LEFT JOIN"}.get(word, word)
        on = [rng.choice(["l.k = r.k", "r.k = l.k"])] + self.bounds()
        if c["residual"]:
            on.append({"lt": rng.choice(["l.v < r.v", "r.v > l.v"]), "ne": "l.v <> r.v"}[c["residual"]])
        where = []
        for side, name in enumerate("lr"):
            if c["filter"][side] is not None:
                kept = {"left": 0, "right": 1}.get(c["type"]) == side
                anywhere = c["type"] == "inner" and rng.random() < .5
                (where if kept or anywhere else on).append("%s.v >= %d" % (name, c["filter"][side]))
        rng.shuffle(on)
        if c["type"] == "inner" and rng.random() < .3:
            return self.select() + " FROM %s, %s WHERE %s" % (tables[0], tables[1], " AND ".join(on + where))
        return (self.select() + " FROM %s %s %s ON %s" % (tables[0], word, tables[1], " AND ".join(on))
                + (" WHERE " + " AND ".join(where) if where else ""))

    def select(self):
        columns = ["l.id AS l_id", "r.id AS r_id", "l.v AS l_v", "r.v AS r_v", "l.ts AS l_ts", "r.ts AS r_ts"]
        return "SELECT " + ", ".join(columns[:self.rng.choice([2, 4, 6])])

    def bounds(self):
        """The time range of an interval join, in one of its spellings."""
        c, rng = self.config, self.rng
        if c["kind"] != "interval":
            return []
        lower, upper = c["lower"], c["upper"]
        low_open, up_open = c.get("lower_open", False), c.get("upper_open", False)
        if not low_open and not up_open and rng.random() < .6:
            if rng.random() < .5:
                return ["r.ts BETWEEN %s AND %s" % (self.shifted("l.ts", lower), self.shifted("l.ts", upper))]
            return ["l.ts BETWEEN %s AND %s" % (self.shifted("r.ts", -upper), self.shifted("r.ts", -lower))]
        return [self.comparison(lower, ">" if low_open else ">="), self.comparison(upper, "<" if up_open else "<=")]

    def comparison(self, n, op):
        """r.ts op l.ts + n"""
        turned = {">": "<", ">=": "<=", "<": ">", "<=": ">="}[op]
        spelling = self.rng.randrange(4)
        if spelling == 0:
            return "r.ts %s %s" % (op, self.shifted("l.ts", n))
        if spelling == 1:
            return "%s %s r.ts" % (self.shifted("l.ts", n), turned)
        if spelling == 2:
            return "l.ts %s %s" % (turned, self.shifted("r.ts", -n))
        return "%s %s l.ts" % (self.shifted("r.ts", -n), op)

    def create_join(self):
        c, options = self.config, []
        if c["kind"] == "wide":
            if c["ttl"][0] == c["ttl"][1] and self.rng.random() < .5:
                options.append("ttl => " + self.interval(c["ttl"][0]))
            else:
                options.append("""side_ttl => '{"l": "%d %s", "r": "%d %s"}'""" % (
                    c["ttl"][0], UNITS[self.unit], c["ttl"][1], UNITS[self.unit]))
        if c.get("timeout") is not None:
            options.append("timeout => " + self.interval(c["timeout"]))
        if c["allowed_lateness"] is not None:
            options.append("allowed_lateness => " + self.interval(c["allowed_lateness"]))
        for option, key, default in (("output_mode", "mode", "upsert"), ("emit", "emit", "auto"), ("late_rows", "late", "keep")):
            if c[key] != default or self.rng.random() < .2:
                options.append("%s => '%s'" % (option, c[key]))
        return "SELECT sjoin.create_join('%s.result', $query$%s$query$%s)" % (
            self.schema, self.query(), "".join(", " + o for o in options))

    # -- steps
    def run_step(self, cursor, step):
        if "txn" in step:
            self.transaction(cursor, step["txn"])
        for side, t in step.get("wm", {}).items():
            cursor.execute("SELECT sjoin.advance_watermark(%s, %s)", (self.table(side), self.time_with_zone(t)))

    def table(self, side):
        return "%s.%s" % (self.schema, "l" if self.self_join else side.lower())

    def transaction(self, cursor, ops):
        """Inserts the rows of one step, one of several ways; a rolled-back savepoint in it leaves nothing."""
        cursor.execute("BEGIN")
        if self.rng.random() < .15:
            cursor.execute("SAVEPOINT s")
            cursor.execute("INSERT INTO %s VALUES (-1, 1, %%s, 3)" % self.table("L"), (self.time(10**4),))
            cursor.execute("ROLLBACK TO s")
        way = self.rng.choice(["insert", "insert", "values", "copy", "savepoint"])
        for side, rows in grouped(ops) if way in ("values", "copy") else ((op[0], [op]) for op in ops):
            self.write(cursor, way, side, [(op[2], op[3], self.time(op[4]), op[5]) for op in rows])
        cursor.execute("COMMIT")

    def write(self, cursor, way, side, rows):
        table = self.table(side)
        if way == "copy":
            lines = "".join("\t".join("\\N" if x is None else str(x) for x in row) + "\n" for row in rows)
            cursor.copy_expert("COPY %s FROM STDIN" % table, io.StringIO(lines))
            return
        if way == "savepoint":
            cursor.execute("SAVEPOINT w")
        cursor.execute("INSERT INTO %s VALUES %s" % (table, ", ".join(["(%s, %s, %s, %s)"] * len(rows))),
                       [x for row in rows for x in row])
        if way == "savepoint":
            cursor.execute("RELEASE w")

    # -- answers
    def result(self, cursor):
        cursor.execute("SELECT l_id, r_id FROM %s.result" % self.schema)
        return Counter(cursor.fetchall())

    def late(self, cursor):
        cursor.execute("SELECT upper(input), (row_data->>'id')::bigint, reason FROM sjoin.late_rows WHERE result = %s::regclass::text",
                       (self.schema + ".result",))
        return Counter(cursor.fetchall())


def grouped(ops):
    """Runs of operations on the same side."""
    runs = []
    for op in ops:
        if runs and runs[-1][0] == op[0]:
            runs[-1][1].append(op)
        else:
            runs.append((op[0], [op]))
    return runs
