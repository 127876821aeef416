"""The transactions of a case as SQL, each in one of several ways that mean the same.

A run of operations of one kind on one side is one statement or several.  Rows are found by their id; where rows may
be equal (Case.bag) by their values, one of them (tableoid and ctid).  Some of what is done is rolled back to a
savepoint first, some transactions are prepared, and where the case has a trigger of its own, it changes a second row
while the statement that changed both is still firing triggers.
"""
import io

NO_ROW = (-1, 1, 3)                                   # id, k, v of a row that is always rolled back


class Writer:
    """Writes to the tables of one case; `current` is what is in them."""

    def __init__(self, case, prepared):
        self.case, self.rng, self.prepared = case, case.rng, prepared
        self.current = {table: {} for table in case.names()}

    # -- transactions
    def transaction(self, cursor, ops):
        cursor.execute("BEGIN")
        if self.rng.random() < .15:
            self.rolled_back(cursor)
        for run in self.runs(ops):
            self.in_some_savepoint(cursor, run)
        if self.prepared and self.rng.random() < .05:
            cursor.execute("PREPARE TRANSACTION %s", (self.case.schema,))
            cursor.execute("COMMIT PREPARED %s", (self.case.schema,))
        else:
            cursor.execute("COMMIT")

    def runs(self, ops):
        """(table, kind, operations of one statement), and chains: two rows are changed, and the second again."""
        while ops:
            side, kind = ops[0][:2]
            n = 1
            if self.is_chain(ops) and all(op[2] in self.current[self.case.table(side)] for op in ops[:3]):
                kind, n = "chain", 3
            elif kind != "T":
                while n < len(ops) and ops[n][:2] == [side, kind] and ops[n][2] not in [op[2] for op in ops[:n]]:
                    n += 1
            yield self.case.table(side), kind, ops[:n]
            ops = ops[n:]

    def is_chain(self, ops):
        return (self.case.chained and len(ops) > 2 and all(op[:2] == [ops[0][0], "U"] for op in ops[:3]) and
                ops[0][2] != ops[1][2] == ops[2][2])

    def in_some_savepoint(self, cursor, run):
        way = self.rng.random()
        if way < .1:                                  # done, undone, and done
            before, state = {t: dict(rows) for t, rows in self.current.items()}, self.rng.getstate()
            cursor.execute("SAVEPOINT w")
            self.write(cursor, *run)
            cursor.execute("ROLLBACK TO w")
            self.current = before
            if way < .05:
                self.rng.setstate(state)
        elif way < .25:
            cursor.execute("SAVEPOINT w")
            self.write(cursor, *run)
            cursor.execute("RELEASE w")
            return
        self.write(cursor, *run)

    def rolled_back(self, cursor):
        table = self.case.table(self.rng.choice("LR"))
        cursor.execute("SAVEPOINT s")
        for _ in range(self.rng.randint(1, 3)):
            what = self.rng.choice(["INSERT", "INSERT", "UPDATE", "DELETE", "TRUNCATE"])
            if what == "INSERT":
                cursor.execute("INSERT INTO %s (id, k, v, ts) VALUES (%%s, %%s, %%s, %%s)" % table, NO_ROW + (self.case.time(10**4),))
                if self.case.keyed:
                    break
            else:
                cursor.execute({"UPDATE": "UPDATE %s SET v = v + 1, k = k + 1", "DELETE": "DELETE FROM %s", "TRUNCATE": "TRUNCATE %s"}[what] % table)
        cursor.execute("ROLLBACK TO s")

    # -- statements
    def write(self, cursor, table, kind, ops):
        if kind == "T":
            return self.truncate(cursor, table, ops[0])
        rows = [(op[2],) + (self.row(op) if len(op) > 3 else ()) for op in ops if kind == "I" or op[2] in self.current[table]]
        if rows:
            {"I": self.insert, "U": self.update, "D": self.delete, "chain": self.chain}[kind](cursor, table, rows)

    def row(self, op):
        """id as shown, k, ts, v"""
        return (self.case.shown(op[2]), op[3], self.case.time(op[4]), op[5])

    def truncate(self, cursor, table, op):
        parts = op[2:] or (self.case.partitions() if self.rng.random() < .5 else [])
        cursor.execute("TRUNCATE " + (", ".join("%s_%s" % (table, part) for part in parts) or table))
        self.current[table] = {i: row for i, row in self.current[table].items()
                               if len(op) > 2 and self.case.partition_of(row[1], row[2]) != op[2]}

    def values(self, rows):
        one = "(%%s::bigint, %%s::int, %%s::%s, %%s::int)" % self.case.time_type
        return "(VALUES %s) AS s(id, k, ts, v)" % ", ".join([one] * len(rows)), [x for row in rows for x in row[1:]]

    def insert(self, cursor, table, rows):
        ways = ["single", "single", "values", "copy"] + ["conflict"] * self.case.keyed + ["merge"] * (not self.case.bag)
        way = self.rng.choice(ways)
        if way in ("conflict", "merge"):
            self.upsert(cursor, table, rows, way)
        elif way == "copy":
            lines = "".join("\t".join("\\N" if x is None else str(x) for x in row[1:]) + "\n" for row in rows)
            cursor.copy_expert("COPY %s (id, k, ts, v) FROM STDIN" % table, io.StringIO(lines))
        else:
            for group in [rows] if way == "values" else [[row] for row in rows]:
                source, arguments = self.values(group)
                cursor.execute("INSERT INTO %s (id, k, ts, v) SELECT * FROM %s" % (table, source), arguments)
        self.current[table].update((row[0], row[1:]) for row in rows)

    def upsert(self, cursor, table, rows, way):
        """Inserts, or updates what is there."""
        source, arguments = self.values(rows)
        if way == "conflict":
            cursor.execute("INSERT INTO %s (id, k, ts, v) SELECT * FROM %s ON CONFLICT (id) DO UPDATE"
                           " SET k = excluded.k, ts = excluded.ts, v = excluded.v" % (table, source), arguments)
        else:
            cursor.execute("MERGE INTO %s t USING %s ON t.id = s.id WHEN MATCHED THEN UPDATE SET k = s.k, ts = s.ts, v = s.v"
                           " WHEN NOT MATCHED THEN INSERT (id, k, ts, v) VALUES (s.id, s.k, s.ts, s.v)" % (table, source), arguments)

    def update(self, cursor, table, rows):
        if self.case.bag:
            for row in rows:
                where, arguments = self.one_like(table, row[0])
                cursor.execute("UPDATE %s SET k = %%s, ts = %%s, v = %%s WHERE %s" % (table, where), list(row[2:]) + arguments)
                self.current[table][row[0]] = row[1:]
            return
        way = self.rng.choice(["single", "single", "from", "merge"] + ["conflict"] * self.case.keyed)
        if way == "from":
            source, arguments = self.values(rows)
            cursor.execute("UPDATE %s t SET k = s.k, ts = s.ts, v = s.v FROM %s WHERE t.id = s.id" % (table, source), arguments)
        elif way == "single":
            for row in rows:
                cursor.execute("UPDATE %s SET k = %%s, ts = %%s, v = %%s WHERE id = %%s" % table, row[2:] + (row[1],))
        else:
            self.upsert(cursor, table, rows, way)
        self.current[table].update((row[0], row[1:]) for row in rows)

    def delete(self, cursor, table, rows):
        ids = [row[0] for row in rows]
        way = self.rng.choice(["single", "using", "merge"])
        if self.case.bag:
            for i in ids:
                where, arguments = self.one_like(table, i)
                cursor.execute("DELETE FROM %s WHERE %s" % (table, where), arguments)
                del self.current[table][i]
            return
        if way == "single":
            for i in ids:
                cursor.execute("DELETE FROM %s WHERE id = %%s" % table, (i,))
        elif way == "using":
            cursor.execute("DELETE FROM %s t USING unnest(%%s::bigint[]) AS s(id) WHERE t.id = s.id" % table, (ids,))
        else:
            cursor.execute("MERGE INTO %s t USING unnest(%%s::bigint[]) AS s(id) ON t.id = s.id WHEN MATCHED THEN DELETE" % table, (ids,))
        for i in ids:
            del self.current[table][i]

    def one_like(self, table, i):
        """A condition that one row with the values of row i meets."""
        return ("(tableoid, ctid) = (SELECT tableoid, ctid FROM %s WHERE (id, k, ts, v) IS NOT DISTINCT FROM"
                " (%%s::bigint, %%s::int, %%s::%s, %%s::int) LIMIT 1)" % (table, self.case.time_type), list(self.current[table][i]))

    def chain(self, cursor, table, rows):
        """One UPDATE of two rows; the trigger of the first changes the second again before its own has fired."""
        first, second, again = rows
        todo = cursor.mogrify("UPDATE %s SET k = %%s, ts = %%s, v = %%s WHERE id = %%s" % table, again[2:] + (again[1],))
        cursor.execute("SELECT set_config('sjoin_case.row', %s, true), set_config('sjoin_case.todo', %s, true)", (str(first[1]), todo.decode()))
        source, arguments = self.values([first, second])
        cursor.execute("UPDATE %s t SET k = s.k, ts = s.ts, v = s.v FROM %s WHERE t.id = s.id" % (table, source), arguments)
        self.current[table].update((row[0], row[1:]) for row in (first, again))
