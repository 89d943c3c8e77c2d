#!/usr/bin/env python3
"""What init says of its choices over several hosts: whose peers ranks are, with predicted times of every way that there is, and in trees up to where packets
go. All ranks made the same of it, or init would have failed. Arguments: marrow-softnic, barrier."""
import os
import re
import subprocess
import sys

SOFTNIC, BARRIER = sys.argv[1:3]
TIMES = r"predicted, all_reduce of 8, 64 K, 1 M and 64 M bytes: (.*)$"


def said(hosts, ranks, **env):
    clean = {k: v for k, v in os.environ.items() if k not in ("MARROW_ALGO", "MARROW_TUNING")}
    clean.update(MARROW_TEST_HOSTS=str(hosts), MARROW_TEST_NICS="1", MARROW_LOG="select", **env)
    done = subprocess.run([SOFTNIC, "run", "--hosts", str(hosts), "--", BARRIER, "--ranks", str(ranks)], env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def ways(text):
    """Names, each with four times that do not go down."""
    (line,) = set(re.findall(TIMES, text, re.M))
    found = {}
    for way in line.rsplit(" us", 1)[0].split(" us; "):
        name, *times = way.replace(",", "").split()
        found[name] = [float(t) for t in times]
        assert len(times) == 4 and found[name] == sorted(found[name]), way
    return found


few = said(2, 4)
assert "select: peers: all (few ranks: sums in rank order)" in few
assert list(ways(few)) == ["all", "rails", "ring", "trees"]
many = said(4, 20)
assert "select: peers: rails (many ranks, as many on every host)" in many
assert min(ways(many), key=lambda way: ways(many)[way][3]) == "rails"
uneven = said(3, 19)
assert "select: peers: all (hosts with different numbers of ranks have no rails)" in uneven
assert list(ways(uneven)) == ["all", "ring", "trees"]
trees = said(4, 4, MARROW_ALGO="tree")
assert "select: peers" not in trees  # asked for: nothing to compare
assert re.search(r"select: all_reduce by bytes: treeshot to \d+, tree", trees) and "all_gather by bytes" not in trees
print("ok")
