"""One random case as SQL: the model's configuration and steps, spelled for a server.

A unit of the model's time is one microsecond, millisecond, second or minute, drawn per case.  The same
configuration can be written in SQL in many ways; which one is drawn from the case's own `render` seed, so that a
case printed on failure is replayed with the same spelling.  Drawn from it, too: whether the tables are partitioned,
have a primary key, have rows that equal each other (`bag`: ids repeat), have a trigger that changes a second row.
"""
import datetime
import random
from collections import Counter

from writer import Writer

BASE = datetime.datetime(2024, 1, 1)
UNITS = {"us": "microseconds", "ms": "milliseconds", "s": "seconds", "min": "minutes"}
SCALE = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6}
IDS_OF_BAGS = 3
IDLE_TIMEOUT = "1 hour"                               # of a clock that is stopped: only the steps of a case make inputs idle
QUIET = 2 * 60 * SCALE["min"]                         # how long an idle input has been quiet
IDLENESS = {None: 0, "advance": 1, "ignore": 2}       # SjIdleness
BOUNDARY = 30                                         # between the partitions of a table partitioned by time
PARTITIONS = {                                        # by: clause, bounds of p0 and p1
    "list": ("LIST (k)", "FOR VALUES IN (1, NULL)", "DEFAULT"),
    "hash": ("HASH (k)", "FOR VALUES WITH (MODULUS 2, REMAINDER 0)", "FOR VALUES WITH (MODULUS 2, REMAINDER 1)"),
    "range": ("RANGE (ts)", "FOR VALUES FROM (MINVALUE) TO ('%s')", "DEFAULT"),
}


class Case:
    """A case in its own schema.  `history`: how many first transactions are there before the join is made."""

    def __init__(self, config, steps, render, history=0):
        self.config, self.steps, self.render, self.history = config, steps, render, history
        rng = random.Random(render)
        self.unit = "s" if config.get("max_future") is not None else rng.choice(list(UNITS))
        self.time_type = rng.choice(["timestamptz", "timestamptz", "timestamp"])
        self.swapped = rng.random() < .5              # the join written from the right table's side
        self.columns = rng.choice([2, 4, 6])
        self.bag = rng.random() < .2
        self.partitioned = rng.choice([None, None, None, "list", "hash", "range"])
        self.keyed = not self.bag and not self.partitioned and rng.random() < .5
        self.chained = not self.bag and rng.random() < .3
        self.rng = rng
        self.self_join = config.get("self_join", False)

    # -- what the model is told
    def shown(self, i):
        return i % IDS_OF_BAGS if self.bag else i

    def captured(self, side, image):
        """What the trigger sees of a row: columns that the join needs."""
        needs_v = self.columns > 2 or self.config["residual"] or self.config["filter"][side] is not None
        return image._replace(id=self.shown(image.id), v=image.v if needs_v else None)

    def partition(self, side, image):
        return self.partition_of(image.key, self.time(image.ts)) if self.partitioned else None

    def partition_of(self, k, stamp):
        """The partition of a row, its event time as text."""
        if self.partitioned == "list":
            return "p0" if k in (1, None) else "p1"
        if self.partitioned == "hash":                # so does PostgreSQL; NULL is in the first
            return "p0" if k in (1, 2, None) else "p1"
        return "p0" if stamp == "-infinity" or stamp is not None and stamp < self.time(BOUNDARY) else "p1"

    def partitions(self):
        return ["p0", "p1"] if self.partitioned else []

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
    def tables(self, schema, prepared):
        self.schema = schema
        self.writer = Writer(self, prepared)
        if self.chained:
            yield CHAIN % schema
        for table in self.names():
            yield "CREATE TABLE %s (id bigint%s, k int, ts %s, v int)%s" % (
                table, " PRIMARY KEY" if self.keyed else "", self.time_type,
                " PARTITION BY " + PARTITIONS[self.partitioned][0] if self.partitioned else "")
            for i, part in enumerate(self.partitions()):
                bounds = PARTITIONS[self.partitioned][i + 1]
                yield from self.make_partition(table, part, bounds % self.time(BOUNDARY) if "%" in bounds else bounds)
            if self.chained:
                yield "CREATE TRIGGER zz AFTER INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION %s.chain()" % (table, schema)

    def make_partition(self, table, part, bounds):
        """As a partition, or attached and with the columns in another order."""
        if self.rng.random() < .5:
            yield "CREATE TABLE %s_%s PARTITION OF %s %s" % (table, part, table, bounds)
            return
        yield "CREATE TABLE %s_%s (junk text, v int, ts %s, id bigint, k int)" % (table, part, self.time_type)
        yield "ALTER TABLE %s_%s DROP COLUMN junk" % (table, part)
        yield "ALTER TABLE %s ATTACH PARTITION %s_%s %s" % (table, table, part, bounds)

    def names(self):
        return ["%s.%s" % (self.schema, name) for name in (("l",) if self.self_join else ("l", "r"))]

    def streams(self):
        future = self.config.get("max_future")
        for i, name in enumerate(("l",) if self.self_join else ("l", "r")):
            yield ("SELECT sjoin.create_stream('%s.%s', 'ts', watermark_delay => %s, idle_timeout => '%s', on_idle => '%s'%s%s)"
                   % (self.schema, name, self.interval(self.config["delay"][i]), IDLE_TIMEOUT if future is None else "0",
                      self.config.get("on_idle", ["advance", "advance"])[i], "" if future is None else ", max_future => " + self.interval(future),
                      ", upsert_key => '{k}'" if self.config.get("upsert_key") and i == 0 else ""))

    def query(self):
        c, rng = self.config, self.rng
        tables = ["%s.l AS l" % self.schema, "%s.%s AS r" % (self.schema, "l" if self.self_join else "r")]
        word = {"left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}.get(c["type"], "JOIN")
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
        if c["type"] in ("semi", "anti"):
            return ("SELECT l.id AS l_id, NULL::bigint AS r_id FROM %s.l AS l WHERE %sEXISTS (SELECT FROM %s.r AS r WHERE %s)"
                    % (self.schema, "NOT " if c["type"] == "anti" else "", self.schema, " AND ".join(on + where)))
        if c["type"] == "inner" and rng.random() < .3:
            return self.select() + " FROM %s, %s WHERE %s" % (tables[0], tables[1], " AND ".join(on + where))
        return (self.select() + " FROM %s %s %s ON %s" % (tables[0], word, tables[1], " AND ".join(on))
                + (" WHERE " + " AND ".join(where) if where else ""))

    def select(self):
        columns = ["l.id AS l_id", "r.id AS r_id", "l.v AS l_v", "r.v AS r_v", "l.ts AS l_ts", "r.ts AS r_ts"]
        return "SELECT " + ", ".join(columns[:self.columns])

    def bounds(self):
        """The time range of an interval join, in one of its spellings."""
        c, rng = self.config, self.rng
        if c["kind"] == "window":
            return ["{0} = {1}".format(*("date_bin(%s, %s.ts, '%s')" % (self.interval(c["size"]), name, self.time(0)) for name in "lr"))]
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
            self.writer.transaction(cursor, step["txn"])
        for side, t in step.get("wm", {}).items():
            cursor.execute("SELECT sjoin.advance_watermark(%s, %s)", (self.table(side), self.time_with_zone(t)))

        if "quiet" in step:
            self.note_quiet(cursor, step["quiet"])
        if "alter" in step:
            cursor.execute(self.alteration(**step["alter"]))

    def note_quiet(self, cursor, found):
        """What the worker would find of idle inputs: for l and r (idle, how far the watermark moves on)."""
        cursor.execute("SELECT join_id, input_left::regclass::text, alias_left FROM sjoin.join_def WHERE result = %s::regclass",
                       (self.schema + ".result",))
        join_id, stream, alias = cursor.fetchone()
        found = found if alias == "l" else found[::-1]
        cursor.execute("SELECT sjoin_test.note_quiet(%s, %s, %s, %s, %s, %s, %s, %s)",
                       [join_id, stream] + [QUIET if idle else 0 for idle, _ in found] + [IDLENESS[idle] for idle, _ in found]
                       + [move * SCALE[self.unit] for _, move in found])

    def alteration(self, delay=None, **options):
        if delay is None:
            return "SELECT sjoin.alter_join('%s.result', %s)" % (
                self.schema, ", ".join("%s => %s" % (option, self.interval(n)) for option, n in options.items()))
        return "SELECT " + ", ".join("sjoin.alter_stream('%s', watermark_delay => %s)" % (name, self.interval(delay[i]))
                                     for i, name in enumerate(self.names()))

    def table(self, side):
        return "%s.%s" % (self.schema, "l" if self.self_join else side.lower())

    def rows_there(self, steps):
        """What the steps leave in the tables, as one transaction of insertions."""
        rows = {}
        for op in (op for step in steps for op in step["txn"]):
            if op[1] == "T":
                rows = {key: row for key, row in rows.items() if key[0] != op[0] or len(op) > 2 and
                        self.partition_of(row[3], self.time(row[4])) != op[2]}
            elif op[1] == "D":
                rows.pop((op[0], op[2]), None)
            elif op[1] == "I" or (op[0], op[2]) in rows:
                rows[op[0], op[2]] = [op[0], "I"] + op[2:]
        return {"txn": list(rows.values())}

    # -- answers
    def result(self, cursor):
        cursor.execute("SELECT l_id, r_id FROM %s.result" % self.schema)
        return Counter(cursor.fetchall())

    def late(self, cursor):
        cursor.execute("SELECT upper(input), (row_data->>'id')::bigint, reason FROM sjoin.late_rows WHERE result = %s::regclass::text",
                       (self.schema + ".result",))
        return Counter(cursor.fetchall())

    def unknown(self, cursor):
        """Inputs with rows that changed and that the join did not know, although it knows all."""
        cursor.execute("SELECT input, rows_unknown FROM sjoin.stat_inputs WHERE relid = %s::regclass AND rows_unknown <> 0",
                       (self.schema + ".result",))
        return cursor.fetchall()

    def strangers(self, cursor):
        """Rows of the tables that should not be there, or are not: the fault of this program."""
        wrong = []
        for table, rows in self.writer.current.items():
            cursor.execute("SELECT id, k, (ts %s)::text, v FROM %s" % (
                "AT TIME ZONE 'UTC'" if self.time_type == "timestamptz" else "", table))
            found = Counter(cursor.fetchall())
            want = Counter((i, k, ts and short_stamp(ts), v) for i, k, ts, v in rows.values())
            wrong += ["%s: %s" % (table, list(((found - want) + (want - found)).elements()))] if found != want else []
        return wrong


def short_stamp(stamp):
    """As PostgreSQL writes it: no zone, no zeros at the end of the fraction."""
    stamp = stamp.removesuffix("+00")
    return stamp.rstrip("0") if "." in stamp else stamp


# A trigger of the user's: when the row named by sjoin_case.row has been changed, it does what sjoin_case.todo says.
CHAIN = """CREATE FUNCTION %s.chain() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id::text = current_setting('sjoin_case.row', true) THEN
        PERFORM set_config('sjoin_case.row', '', true);
        EXECUTE current_setting('sjoin_case.todo');
    END IF;
    RETURN NULL;
END $$"""
