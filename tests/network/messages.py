#!/usr/bin/env python3
"""What `messages` predicts for each queue pair, beside what the model of the NIC counted. Arguments: marrow-softnic, messages, hosts, NICs, ranks, and maybe
an algorithm."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def main():
    softnic, program, hosts, nics, ranks = sys.argv[1:6]
    with tempfile.TemporaryDirectory() as scratch:
        stats = pathlib.Path(scratch) / "stats"
        environment = dict(os.environ, MARROW_TEST_HOSTS=hosts, MARROW_TEST_NICS=nics)
        run = subprocess.run([softnic, "run", "--hosts", hosts, "--nics", nics, "--stats", str(stats), "--", program, ranks, *sys.argv[6:]], env=environment, capture_output=True,
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
    print(f"{len(expected)} queue pairs, {sum(e[1] for e in expected)} requests, {sum(e[2] for e in expected)} bytes: "
          f"{'FAILED' if wrong else 'as predicted'}")
    return 1 if wrong else 0


sys.exit(main())
