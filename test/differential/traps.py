#!/usr/bin/python3
"""The small cases of traps/, each a trap of the rules, on a running server against the model (run.py).

  traps.py [NAME ...]       without .jsonl

One line "ok NAME" or "not ok NAME" per case.  Each is played in several renderings (spelling of the query, partitions,
kinds of statements, unit of time; case.py), and after each step compared with the model; at the end, which is a
watermark past everything, verify() must find no difference and the state must be empty.  A case that needs what this
release does not have is in not_supported.json with the reason, and it must be refused, in every rendering.
"""
import glob
import json
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from case import Case
from netting import split_ambiguous
from run import Run, Server, load, play

RENDERINGS = 6
FAR = 10**5                                             # units after all rows and bounds
REFUSALS = ("FeatureNotSupported", "InvalidParameterValue", "UndefinedFunction")


def renderings(path):
    """The case in several spellings; transactions are taken apart where these make equal rows."""
    known = load(path)
    for render in range(RENDERINGS):
        steps = known.steps + [{"wm": {"L": FAR, "R": FAR}}]
        case = Case(known.config, steps, render)
        if case.bag or case.partitioned:
            case.steps = split_ambiguous(case.config, steps, case.captured, case.partition, random.Random(render))
        yield case


def failure_of(server, case):
    """(is it a refusal, what went wrong), or None"""
    run = Run(case, 1)
    play(server, [run], random.Random(case.render), False, eager=True)
    run.drop(server)
    return run.failure and (run.kind.rstrip(":") in REFUSALS, run.report())


def judge(server, path, reason):
    """None, or what is wrong; `reason`: why the case is not supported."""
    for case in renderings(path):
        failure = failure_of(server, case)
        if reason and not failure:
            return "it is not refused"
        if failure and not (reason and failure[0]):
            return failure[1]
    return None


def main():
    with open(os.path.join(HERE, "not_supported.json")) as file:
        not_supported = json.load(file)
    server, failed = Server(), 0
    server.prepare()
    for path in sorted(glob.glob(os.path.join(HERE, "traps", "*.jsonl"))):
        name = os.path.basename(path)[:-len(".jsonl")]
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        reason = not_supported.get(name)
        problem = judge(server, path, reason)
        failed += problem is not None
        if problem:
            print("not ok %s\n%s" % (name, problem), flush=True)
        else:
            print("ok %s%s" % (name, " # refused: " + reason if reason else ""), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
