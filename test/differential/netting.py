#!/usr/bin/python3
"""The model's rules for a server that nets a transaction by value before it judges it.

Spec (sjoin_model.py) judges operation by operation.  The server sees a transaction's changes in the order in which
its trigger fired, which is not the order in which they were made, so it first takes out what cancels (design A2, R6):
every change is an edge from the old image to the new one (insertion: from nothing; deletion: to nothing); an image
that is both made and used up in the transaction is paired off, and cycles vanish.  TRUNCATE takes what was there
before the transaction, and what was done to the table earlier in it vanishes.  What is left is judged by the clock
before the step; watermarks move by all captured new images, those netted away included.

For transactions of one operation this is what Spec says (selftest compares the two).  For others it can differ: with
the horizon at 10,

    BEGIN; INSERT (id 1, ts 5); UPDATE ... SET ts = 12 WHERE id = 1; COMMIT

is for Spec a late row and an update of one that was never taken in (late, expired_change); netted it is the insertion
of a row of time 12, which is in time.

Rows are found by value, so equal rows may be exchanged.  That shows against Spec in append mode only, for rows with NULL
key on a side that is not padded: they are not in state, so a live one counts as accepted whenever it is changed, and
TRUNCATE does not report them.  Netting.stranger is set when one of these has been met, and the comparison with Spec ends
there.

    netting.py selftest [--rounds N] [--seed S]
"""
import argparse
import os
import random
import sys
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sjoin_model as model

ALL = "all"                                           # partitions
SHUFFLES = 40                                         # orders in which a transaction is netted to see whether they matter


def whole(side, image):
    return image


def one_partition(side, image):
    return 0


class QuietClock(model.Clock):
    """Clock with inputs that are idle (T7): None, "advance" or "ignore"."""

    def __init__(self, plan):
        super().__init__(plan)
        self.idle, self.had_rows = [None, None], [False, False]

    def rows(self, seen, now, woken=(False, False)):
        for side in (0, 1):
            self.had_rows[side] |= bool(seen[side])
            if woken[side]:
                self.idle[side] = None
        super().rows(seen, now)

    def quiet(self, found):
        """What is found of each side: (idle, how far its watermark moves on)."""
        fell = any(idle and not was for (idle, _), was in zip(found, self.idle))
        self.idle = [idle for idle, _ in found]
        started = [side for side in (0, 1) if self.had_rows[side]]
        if fell and started and all(self.idle[side] for side in started):
            greatest = max(self.wm[side] for side in started)
            for side in started:
                self.wm[side] = greatest
        for side, (idle, move) in enumerate(found):
            if idle == "advance" and self.wm[side] is not None:
                self.wm[side] += move
        self.settle()

    def settle(self):
        waited_for = [wm for wm, idle in zip(self.wm, self.idle) if idle != "ignore"]
        known = [wm for wm in self.wm if wm is not None]
        if None in waited_for or not known:
            return
        watermark = min(waited_for) if waited_for else max(known)
        self.W = watermark if self.W is None else max(self.W, watermark)
        self.H = self.W - self.al if self.H is None else max(self.H, self.W - self.al)


class Netting(model.Spec):
    """Spec by transactions.  `captured`: (side, image) -> what the trigger sees of it; `partition`: (side, image) ->
    the partition that holds it.  An update between two partitions is a deletion and an insertion.  Beside the
    model's operations there is [side, "T", partition]."""

    def __init__(self, config, captured=whole, partition=one_partition):
        super().__init__(config, model.FIXED)
        self.clock = QuietClock(self.p)
        self.captured, self.partition, self.stranger = captured, partition, False
        self.settled_gone = False                     # a table has lost rows that the join keeps
        self.kept_images = set()                      # (side, id): accepted images that were updated when settled
        self.twice_there = False                      # such a row came in again and has gone: id and columns name two images
        self.detached = [set(), set()]                # append: rows that are accepted though the table has them no more

    def step(self, step):
        self.late, self.counted = [], 0
        if "txn" in step:
            images = [self.transaction(side, step) for side in (0, 1)]
            self.clock.rows([[i.ts for i in part if isinstance(i.ts, int)] for part in images], step.get("now"),
                            [bool(part) for part in images])
        if "quiet" in step:
            self.clock.quiet(step["quiet"])
        model.apply_clock(self.p, self.clock, {k: v for k, v in step.items() if k != "txn"})
        if "timeout" in step.get("alter", {}):
            self.timeout = self.p.timeout = step["alter"]["timeout"]
        if "delay" in step.get("alter", {}):
            self.p.c["delay"] = step["alter"]["delay"]
        return self.result()

    def transaction(self, side, step):
        """One side's part of it; the images that were captured."""
        emptied, edges, images = self.edges(side, [op for s, op in model.ops_of(self.p, step) if s == side])
        for uid in [u for u, rows in self.taken[side].items() if self.is_emptied(side, rows[0].img, emptied)]:
            self.take_out(side, uid)
        for old, new in compose(edges):
            self.n += 1
            if old is None:
                self.insert(side, new)
            else:
                self.change(side, old, new)
        return images

    def edges(self, side, ops):
        """Partitions that were emptied, the changes that count, and all new images; the table follows."""
        table, emptied, edges, images = self.table[side], set(), [], []
        for op in ops:
            old = table.get(op[1]) if op[0] in "UD" else None
            if op[0] == "T":
                now = {op[1] if len(op) > 1 else ALL}
                emptied |= now
                edges = [e for e in edges if not self.is_emptied(side, e[0] or e[1], now)]
                for id_ in [i for i, image in table.items() if self.is_emptied(side, image, now)]:
                    del table[id_]
            elif op[0] == "D" and old:
                edges.append((table.pop(op[1]), None))
            elif op[0] == "I" or op[0] == "U" and old:
                new = table[op[1]] = self.captured(side, model.Img(*op[1:]))
                if new != old:
                    images.append(new)
                    moved = old and self.partition(side, old) != self.partition(side, new)
                    edges += [(old, None), (None, new)] if moved else [(old, new)]
        return emptied, edges, images

    def is_emptied(self, side, image, emptied):
        return ALL in emptied or bool(emptied) and self.partition(side, image) in emptied

    # -- one change
    def live(self, side, image):
        return isinstance(image.ts, int) and self.p.passes(side, image.v) and self.p.changeable(side, image.ts, self.clock.H)

    def accepted(self, side, image):
        """The row in the join that equals the image, or nothing."""
        found = next((u for u, rows in self.taken[side].items() if rows[0].img == image and u not in self.detached[side]), None)
        if found is None and self.is_not_kept(side, image) and self.live(side, image):
            self.stranger |= self.p.c["mode"] == "append"
            return "null key"
        return found

    def is_not_kept(self, side, image):
        padded = model.outer(self.p.c, side) or self.p.c["type"] == "anti" and side == 0
        return image.key is None and not padded

    def insert(self, side, new):
        self.take(side, ("row", side, self.n, new.id), new, None)

    def change(self, side, old, new):
        uid = self.accepted(side, old)
        if self.live(side, old) and uid:
            if self.p.c["mode"] == "append":
                self.detached[side].add(uid)
                self.reject(side, new or old, "changed")
                return
            self.taken[side].pop(uid, None)
        elif new is None:
            self.counted += 1
            self.lose(side, old)
        elif not self.p.never_in(side, old, self.clock.H):
            if self.p.passes(side, old.v) or self.p.passes(side, new.v):
                self.reject(side, new, "expired_change")
            if uid:
                self.kept_images.add((side, old.id))
            return
        if new is not None:
            self.insert(side, new)

    def lose(self, side, image):
        """A settled row leaves its table and stays in the join."""
        self.settled_gone = True
        self.twice_there |= (side, image.id) in self.kept_images

    def take_out(self, side, uid):
        """A row of a table that was emptied."""
        image = self.taken[side][uid][0].img
        if not self.live(side, image):
            self.lose(side, image)
            return
        if self.p.c["mode"] != "append":
            del self.taken[side][uid]
            return
        if self.is_not_kept(side, image):
            self.stranger = True
        elif uid not in self.detached[side]:
            self.detached[side].add(uid)
            self.reject(side, image, "changed")


def compose(edges):
    """Net changes: what is made and used up in between is paired off."""
    net = []
    for start, end in edges:
        before = next((e for e in net if start is not None and e[1] == start), None)
        if before and start != end:
            net.remove(before)
            start = before[0]
        after = next((e for e in net if end is not None and e[0] == end), None)
        if after and start != end:
            net.remove(after)
            end = after[1]
        if start != end:
            net.append((start, end))
    return net


def is_ambiguous(edges, rng):
    """Is there more than one way to net these?  (Only with equal rows.)"""
    first = Counter(compose(edges))
    for _ in range(SHUFFLES if len(edges) > 2 else 0):
        rng.shuffle(edges)
        if Counter(compose(edges)) != first:
            return True
    return False


def is_rewritten(edges):
    """Is an image deleted and made again?  If it is settled it depends on what else was written whether the deletion is
    captured, and with it whether what makes it again is a late row."""
    gone = Counter(old for old, new in edges if new is None)
    return any(gone[new] for old, new in edges)


def split_ambiguous(config, steps, captured, partition, rng):
    """The steps, those transactions taken apart whose net changes depend on how equal rows are told apart, or on what
    is captured."""
    model_, out = Netting(config, captured, partition), []
    for step in steps:
        if "txn" not in step:
            out.append(step)
            continue
        found = [model_.edges(side, [op for s, op in model.ops_of(model_.p, step) if s == side])[1] for side in (0, 1)]
        if any([is_ambiguous(edges, rng) or is_rewritten(edges) for edges in found]):
            out += [dict(step, txn=[op]) for op in step["txn"]]
        else:
            out.append(step)
    return out


# ------------------------------------------------------------------------------------------------------------ selftest
def compare_with_spec(config, steps):
    """None, or where they differ; every operation is a transaction of its own."""
    spec, netting = model.Spec(config, model.FIXED), Netting(config)
    for step in steps:
        for one in [dict(step, txn=[op]) for op in step["txn"]] if "txn" in step else [step]:
            if one.get("restart"):
                continue
            want, got = spec.step(one), netting.step(one)
            if netting.stranger:
                return None
            if want != got or Counter(map(tuple, spec.late)) != Counter(map(tuple, netting.late)):
                return "%s: %s %s, Spec: %s %s" % (one, got, netting.late, want, spec.late)
    return None


def random_walk(rng):
    """Changes of a few rows as edges in the order made, and the net changes by identity."""
    now, before, edges, n = {}, {}, [], 0
    for _ in range(rng.randint(0, 3)):
        n += 1
        now[n] = before[n] = (n, rng.randint(0, 2))
    for _ in range(rng.randint(1, 8)):
        if not now or rng.random() < .3:
            n += 1
            now[n] = (n, rng.randint(0, 2))
            edges.append((None, now[n]))
            continue
        i = rng.choice(sorted(now))
        old = now.pop(i)
        if rng.random() < .7:
            now[i] = (i, rng.randint(0, 2))
        if now.get(i) != old:
            edges.append((old, now.get(i)))
    return edges, Counter((before.get(i), now.get(i)) for i in range(1, n + 1) if before.get(i) != now.get(i))


def selftest(seed, rounds):
    for i in range(rounds):
        rng = random.Random(seed + i)
        edges, net = random_walk(rng)
        rng.shuffle(edges)
        assert Counter(compose(edges)) == net, "seed %d: %s nets to %s" % (seed + i, edges, compose(edges))
        config, steps = model.gen(rng)
        difference = compare_with_spec(config, steps)
        assert difference is None, "seed %d: %s\n%s" % (seed + i, difference, config)
    config = dict(type="left", lower=0, upper=2, allowed_lateness=0)
    late = {"txn": [["L", "I", 1, 1, 5, 1], ["L", "U", 1, 1, 12, 1]]}
    spec, netting = model.Spec(config, model.FIXED), Netting(config)
    for m in (spec, netting):
        m.step({"wm": {"L": 10, "R": 10}})
        m.step(late)
    assert [x[2] for x in spec.late] == ["late", "expired_change"] and not spec.taken[0]
    assert not netting.late and len(netting.taken[0]) == 1
    truncated = Netting(dict(config, mode="append"), partition=lambda side, image: image.key)
    truncated.step({"txn": [["L", "I", 1, 1, 20, 1], ["L", "I", 2, 2, 20, 1]]})
    truncated.step({"txn": [["L", "U", 1, 1, 21, 1], ["L", "I", 3, 1, 20, 1], ["L", "U", 2, 3, 20, 1], ["L", "T", 1], ["L", "I", 4, 1, 22, 1]]})
    assert Counter(x[1:] for x in truncated.late) == Counter([(1, "changed"), (2, "changed")]), truncated.late
    print("selftest ok")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("command", choices=["selftest"])
    arguments.add_argument("--rounds", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    selftest(options.seed, options.rounds)


if __name__ == "__main__":
    main()
