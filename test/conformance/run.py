#!/usr/bin/python3
"""Small cases of the reference engines (cases.jsonl), played against a server or against the model of the rules.

  run.py [--model] [--mode changelog|upsert] [CASE ...]

One line "ok ID" or "not ok ID" per case.  A case is equal when after each step the result holds the rows that the
reference engine's output leaves; how the changes are named may differ (sjoin writes the net effect of a transaction).
A case that is not equal must be in differences.json with the sentence that says why, and one that is there must not
be equal; with --model only what the rules say counts, not what a release supports.

Numbers are milliseconds of event time, a step is a transaction.  How the cases of an operator are read is said in the
module that plays them: keyed.py (regular, multi, wide), timed.py (ds_interval, sql_interval, kafka, spark, timers),
clocks.py (valve, boo, idle) and ttl.py.
"""
import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "differential"))
import keyed
from cases import load
from clocks import clocks
from server import NotSupported
from timed import timed
from ttl import ttl


def play_keyed(case, model, mode):
    return keyed.play(case, keyed.KeyedModel(case) if model else keyed.KeyedServer(case, mode))


PLAYED_BY = dict.fromkeys(("regular", "multi", "wide"), play_keyed)
PLAYED_BY.update(dict.fromkeys(("ds_interval", "sql_interval", "kafka", "spark", "timers"), timed))
PLAYED_BY.update(dict.fromkeys(("valve", "boo", "idle"), clocks), ttl=ttl)


def outcome(case, options):
    """None: equal."""
    try:
        return PLAYED_BY[case.op](case, options.model, options.mode)
    except NotSupported as refusal:
        return "not supported: %s" % refusal


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--model", action="store_true")
    arguments.add_argument("--mode", default="changelog")
    arguments.add_argument("cases", nargs="*")
    options = arguments.parse_args()
    with open(os.path.join(HERE, "differences.json")) as file:
        differences = json.load(file)
    failed = 0
    for case in load(os.path.join(HERE, "cases.jsonl")):
        if options.cases and case.id not in options.cases:
            continue
        found, listed = outcome(case, options), differences.get(case.id)
        if options.model and (found or "").startswith("not supported"):
            continue
        good = bool(found) == bool(listed) or options.model and listed and "in this version" in listed
        failed += not good
        print("%s %s%s" % ("ok" if good else "not ok", case.id, " # %s" % (listed if good and listed else found) if found or listed else ""), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
