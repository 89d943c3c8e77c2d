#!/usr/bin/env python3
"""A calibration table is written, followed and, where it does not fit, refused with file, line and reason by all ranks; ranks that were given
different ones, or different algorithms, are told who and what. Arguments: all_reduce_perf, broadcast_perf. Host target."""
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile

ALL_REDUCE, BROADCAST = sys.argv[1:3]
CLEAN = {k: v for k, v in os.environ.items() if k not in ("MARROW_TUNING", "MARROW_ALGO", "MARROW_LOG")}
ONCE = ["--target", "host", "-b", "8", "-e", "2K", "-f", "16", "-n", "2", "-T", "20"]


def start(program, *args, cpus=None, **env):
    return subprocess.Popen([program, *ONCE, *args], env={**CLEAN, **env}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            preexec_fn=lambda: cpus and os.sched_setaffinity(0, cpus))


def run(program, *args, **env):
    process = start(program, *args, **env)
    return process.communicate(timeout=50)[0], process.returncode


def free_port():
    """Not one of those that the system gives to others' sockets."""
    for port in random.sample(range(12000, 20000), 100):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
    raise RuntimeError("no free port")


def ranks(envs):
    """A process for each; what they said and their exit statuses."""
    root = f"127.0.0.1:{free_port()}"
    n = str(len(envs))
    started = [start(ALL_REDUCE, "-c", "0", MARROW_RANK=str(r), MARROW_NRANKS=n, MARROW_ROOT=root, **env) for r, env in enumerate(envs)]
    return [(p.communicate(timeout=50)[0], p.returncode) for p in started]


def expect(condition, what, text):
    if not condition:
        sys.exit(f"{what}:\n{text}")


with tempfile.TemporaryDirectory() as folder:
    table = pathlib.Path(folder, "table")

    def write(text, name):
        path = pathlib.Path(folder, name)
        path.write_text(text)
        return str(path)

    # Written, function by function.
    for program, name in (ALL_REDUCE, "all_reduce"), (BROADCAST, "broadcast"):
        text, status = run(program, "--ranks", "2", "-c", "0", "--rounds", "3", "--calibrate", str(table))
        expect(status == 0 and f"# calibrated: {name} " in text, "calibrating", text)
    good = table.read_text()
    lines = good.split("\n")
    expect(lines[0] == "marrow-tuning 1" and "shape ranks 2 hosts 1 fullest 2 peers all" in lines and
           re.search(r"^all_reduce \w+ max$", good, re.M) and re.search(r"^broadcast \w+ max$", good, re.M), "the table", good)

    # Followed; each distinct choice is told once.
    odd = write(re.sub(r"^all_reduce .*\n", "", good, flags=re.M) + "all_reduce bulk 100\nall_reduce oneshot max\n", "odd")
    text, status = run(ALL_REDUCE, "--ranks", "2", MARROW_TUNING=odd, MARROW_LOG="select")
    expect(status == 0 and "all_reduce by bytes: bulk to 100, oneshot (measured: MARROW_TUNING)" in text and
           "reduce by bytes: " in text and "(cost model)" in text, "following", text)
    told = re.findall(r"rank 0 info: select: all_reduce \d+ bytes: (\w+), .*(?:measured: MARROW_TUNING), [\d.]+ us predicted", text)
    expect(sorted(told) == ["bulk", "oneshot"], "telling once", text)

    # A shape that is not in it: the model.
    text, status = run(ALL_REDUCE, "--ranks", "2", MARROW_LOG="info")
    expect(status == 0 and all(f"rank {r} of 2 on 1 host, host target" in text for r in (0, 1)), "ranks announce themselves", text)

    text, status = run(ALL_REDUCE, "--ranks", "3", MARROW_TUNING=odd, MARROW_LOG="warn,select")
    expect(status == 0 and "MARROW_TUNING" not in text and "all_reduce by bytes: oneshot" in text, "another shape", text)

    # Refused: file, line and reason, and the model goes on.
    machine = write(good.replace(lines[2], "machine host, abacus, 7 CPUs"), "machine")
    version = write(good.replace(lines[1], "library 0.0.1 wire 1"), "version")
    broken = write(good[:-1], "broken")
    for path, line, why in (machine, 3, 'measured on "host, abacus, 7 CPUs"'), (version, 2, "measured with library 0.0.1 wire 1"), \
            (broken, len(lines) - 1, "cut off"), (folder + "/nowhere", 0, "cannot be opened: No such file"), (folder, 0, "cannot be"):
        text, status = run(ALL_REDUCE, "--ranks", "2", MARROW_TUNING=path)
        where = f"{path}:{line}: " if line else f"{path}: "
        expect(status == 0 and text.count(f"warn: MARROW_TUNING: {where}{why}") == 2, f"refusing {path}", text)
        text, status = run(ALL_REDUCE, "--ranks", "2", "-c", "0", "--calibrate", path)
        if line:
            expect(status != 0 and f"--calibrate: {where}{why}" in text, f"not writing over {path}", text)
    # By one rank only: by all. Rank 0 tells the choices.
    (first, one), (second, two) = ranks([{"MARROW_TUNING": odd, "MARROW_LOG": "warn,select"}, {"MARROW_TUNING": machine}])
    expect(one == 0 and re.search(r"warn: MARROW_TUNING: rank 1 \(.*\) refused its table", first) and "measured: MARROW_TUNING" not in first and
           "(cost model)" in first, "another rank refuses", first)
    expect(two == 0 and f"{machine}:3: " in second, "one rank refuses", second)

    # Asked for in vain: said, by one rank.
    for algo, words in ("twoshot", "MARROW_ALGO=twoshot or config.algo has no effect: 2 ranks on 1 hosts have no such algorithm"), ("bulk", None):
        text, status = run(ALL_REDUCE, "--ranks", "2", MARROW_ALGO=algo)
        expect(status == 0 and (text.count(words) == 1 if words else "warn" not in text), f"MARROW_ALGO={algo}", text)

    # Given differently: all ranks fail with the same words.
    for envs, words in (
            ([{"MARROW_TUNING": str(table)}, {"MARROW_TUNING": odd}], r"rank 1 \(.*\) has MARROW_TUNING table \w+, rank 0 \(.*\) has MARROW_TUNING table \w+: set MARROW_TUNING equally"),
            ([{}, {}, {"MARROW_TUNING": odd}], r"rank 2 \(.*\) has MARROW_TUNING table \w+, rank 0 \(.*\) has no MARROW_TUNING: set"),
            ([{"MARROW_TUNING": odd}, {}], r"rank 1 \(.*\) has no MARROW_TUNING, rank 0 \(.*\) has MARROW_TUNING table \w+: set"),
            ([{}, {"MARROW_ALGO": "ring"}], r"rank 1 \(.*\) has MARROW_ALGO=ring, rank 0 \(.*\) has no MARROW_ALGO: set MARROW_ALGO or config.algo equally")):
        for text, status in ranks(envs):
            expect(status != 0 and re.search(words, text), words, text)

# Ranks that share a CPU choose otherwise than those with one each, whoever of them may run where.
allowed = sorted(os.sched_getaffinity(0))
if len(allowed) > 1:
    told = []
    for cpus in [allowed[:1]] * 2, [allowed[:1], allowed[1:2]], [allowed[:2]] * 2:
        (text, status), _ = ranks([{"MARROW_LOG": "select", "cpus": c} for c in cpus])
        found = re.search("select: all_reduce by bytes: .*", text)
        expect(status == 0 and found, "choices by CPUs", text)
        told.append(found[0])
    expect(told[0] != told[1] == told[2], "choices by CPUs", told)

print("tables are followed, refused and agreed upon")
