#!/usr/bin/env python3
"""What `messages` predicts for each queue pair, beside what the model of the NIC counted, and beside what the simulator says of the same calls.
Arguments: marrow-softnic, marrow-sim, messages, hosts, NICs, ranks, and maybe an algorithm."""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile


SCHEDULES = {"bulk": "direct"}  # others have one name
COUNTS = "3,0,8,1,1"  # of calls whose blocks differ, in messages.c
LINE = re.compile(r".*: rank (\d+) to (\d+), NIC (\d+): (\d+) requests, (\d+) bytes")


def simulated(simulator, hosts, nics, ranks, output):
    """Calls that the simulator tells otherwise than the library, and how many there were."""
    calls = collections.defaultdict(set)
    ways = sys.argv[7:]
    for line in output.splitlines():
        if line.startswith("sent "):
            words = line.split()
            # Not simulated: transfers where not all ranks greet each other.
            if not (ways and words[4] == "transfers"):
                calls[tuple(words[1:8])].add(tuple(map(int, words[8:])))
    if not calls:
        return 1, 0
    wrong = 0
    sizes = collections.Counter(rank * int(hosts) // int(ranks) for rank in range(int(ranks)))  # as support/hosts.c fills them
    others = "".join(f"host {host} gpus {size}\n" for host, size in sizes.items() if size != int(ranks) // int(hosts))
    exchanges = int(re.search(r"^exchanges (\d+)$", output, re.M)[1])
    for (func, size, root, algo, cap, channels, chunk), sent in calls.items():
        cluster = (f"marrow-cluster 1\ntarget host\nhosts {hosts}\ngpus {int(ranks) // int(hosts)}\nnics {nics}\nchannels {cap}\n"
                   "nic_gb_s 1\nmemory_gb_s 1\nround_us 1\n" + others)
        schedule = "treering" if "tree" in ways and algo == "ring" else SCHEDULES.get(algo, algo)
        counts = ["--counts", COUNTS] if func.endswith("_v") else []
        run = subprocess.run([simulator, "--messages", "--collective", func, "--schedule", schedule,
                              "--sizes", size if func != "barrier" else "1", "--root", root, *counts, "-"],
                             input=cluster, capture_output=True, text=True)
        said = {tuple(map(int, m.groups())) for m in map(LINE.match, run.stdout.splitlines()) if m}
        if run.returncode or said != sent or f": {channels} channels, chunks of {chunk} bytes" not in run.stdout:
            print(f"{func} of {size} bytes by {algo}: the simulator says otherwise: {sorted(said ^ sent)[:6]} {run.stdout[:100]} {run.stderr}")
            wrong += 1
    run = subprocess.run([simulator, "--json", "--sizes", "64", "-"], input=cluster, capture_output=True, text=True)
    told = json.loads(run.stdout)["rows"][0]["bootstrap"]["exchanges"]
    if told != exchanges:
        print(f"init made {exchanges} exchanges, the simulator says {told}")
        wrong += 1
    return wrong, len(calls)


def main():
    softnic, simulator, program, hosts, nics, ranks = sys.argv[1:7]
    with tempfile.TemporaryDirectory() as scratch:
        stats = pathlib.Path(scratch) / "stats"
        environment = dict(os.environ, MARROW_TEST_HOSTS=hosts, MARROW_TEST_NICS=nics)
        run = subprocess.run([softnic, "run", "--hosts", hosts, "--nics", nics, "--stats", str(stats), "--", program, ranks, *sys.argv[7:]], env=environment, capture_output=True,
                             text=True)
        if run.returncode != 0:
            print(run.stdout[-4000:], run.stderr[-4000:])
            return run.returncode
        counted = {}
        for line in stats.read_text().splitlines():
            queue = json.loads(line)
            counted[queue["qp"]] = queue
    expected = [list(map(int, line.split()[1:])) for line in run.stdout.splitlines() if line.startswith("expect ")]
    wrong = 0 if expected else 1
    for qpn, requests, size in expected:
        queue = counted.get(qpn)
        if queue is None:
            print(f"queue pair {qpn}: the model does not know it")
            wrong += 1
            continue
        seen = (queue["wqes"], queue["bytes"])
        if seen != (requests, size) or queue["error_completions"] or queue["doorbells"] > requests:
            print(f"queue pair {qpn}: predicted {requests} requests and {size} bytes, the model saw {queue}")
            wrong += 1
    otherwise, calls = simulated(simulator, hosts, nics, ranks, run.stdout)
    wrong += otherwise
    print(f"{calls} calls simulated alike, " if not otherwise else "", end="")
    print(f"{len(expected)} queue pairs, {sum(e[1] for e in expected)} requests, {sum(e[2] for e in expected)} bytes: "
          f"{'FAILED' if wrong else 'as predicted'}")
    return 1 if wrong else 0


sys.exit(main())
