#!/usr/bin/env python3
"""The perf programs as people run them: the table has nccl-tests' columns, --json says the same as the table, --compare times another library,
wrong elements and bytes beside the output are counted, bad command lines are refused with flag and value. Host target.
Arguments: the directory of the programs, libnccl.so.2, spoil.so (spoil.c)."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAMS, NCCL, SPOIL = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("MARROW_", "NCCL_"))}
RANKS = 3  # of two, two of the bus factors are one
QUICK = ["--target", "host", "-n", "2", "-w", "1", "-T", "20"]
SIZES = ["-b", "64", "-e", "32K", "-f", "16"]
FIELDS = ("bytes count type op root in_place graph lib time_us p50 p99 algbw busbw wrong "  # as promised; and what tells runs apart:
          "collective target ranks registered").split()
HALF = ["time", "algbw", "busbw", "#wrong"]
# name: collective, what the busbw is of algbw, blocks of the larger buffer, has an operation, root
COLLECTIVES = {
    "all_reduce": ("AllReduce", 2 * (RANKS - 1) / RANKS, 1, True, -1),
    "all_gather": ("AllGather", (RANKS - 1) / RANKS, RANKS, False, -1),
    "broadcast": ("Broadcast", 1, 1, False, 2),
    "reduce_scatter": ("ReduceScatter", (RANKS - 1) / RANKS, RANKS, True, -1),
}


def run(name, *args, env={}):
    return subprocess.run([PROGRAMS / f"{name}_perf", *args], env={**CLEAN, "MARROW_TARGET": "host", **env}, capture_output=True, text=True,
                          timeout=60)


def near(a, b, decimals):
    """Equal but for what printing cost."""
    return math.isclose(a, b, rel_tol=1e-3, abs_tol=0.51 * 10.0 ** -decimals)


class Table:
    def __init__(self, done, extra=()):
        self.lines = done.stdout.splitlines()
        words = [line[1:].split() for line in self.lines if line.startswith("#")]
        half = HALF + list(extra)
        at = words.index("size count type redop root".split() + half + half)
        assert words[at - 1] == ["out-of-place", "in-place"], words[at - 1]
        unit = ["(us)", "(GB/s)", "(GB/s)"] + ["(us)"] * bool(extra)
        assert words[at + 1] == ["(B)", "(elements)"] + unit + unit, words[at + 1]
        self.rows = []
        for line in self.lines:
            if line and not line.startswith("#"):
                cells = line.split()
                assert len(cells) == 5 + 2 * len(half), line
                halves = [dict(zip(half, cells[i:i + len(half)])) for i in (5, 5 + len(half))]
                self.rows.append((int(cells[0]), int(cells[1]), cells[2], cells[3], int(cells[4]), halves))
        bounds, bandwidth = (next(w for w in words if w[:2] == start) for start in (["Out", "of"], ["Avg", "bus"]))
        assert bounds[:5] == "Out of bounds values :".split() and bandwidth[:4] == "Avg bus bandwidth :".split()
        self.out_of_bounds, self.verdict, self.average = int(bounds[5]), bounds[6], float(bandwidth[4])


def measurements(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def compare_table_and_json(name, folder, type_name, op, ranks):
    collective, factor, blocks, reduces, root = COLLECTIVES[name]
    element = {"float": 4, "int8": 1}[type_name]
    path = f"{folder}/{name}.json"
    done = run(name, *QUICK, *SIZES, *ranks, "-r", "2", "-d", type_name, "-o", op, "--json", path)
    assert done.returncode == 0 and "# wrong" not in done.stderr, (name, done.returncode, done.stderr)
    table, objects = Table(done), measurements(path)
    assert len(table.rows) == 3 and len(objects) == 6, (done.stdout, objects)
    assert table.out_of_bounds == 0 and table.verdict == "OK"
    for i, (size, count, kind, redop, at, halves) in enumerate(table.rows):
        asked = 64 * 16 ** i
        assert size == count * element * blocks and asked - 16 * blocks < size <= asked, (name, size, count)
        assert (kind, redop, at) == (type_name, op if reduces else "none", root)
        for in_place, half in enumerate(halves):
            said = objects[2 * i + in_place]
            assert list(said) == FIELDS, said
            assert (said["bytes"], said["count"], said["type"], said["op"], said["root"], said["in_place"]) == \
                (size, count, kind, redop, at, bool(in_place)), said
            assert (said["graph"], said["lib"], said["wrong"], said["collective"], said["target"], said["ranks"]) == \
                (0, "marrow", 0, collective, "host", RANKS), said
            assert said["time_us"] > 0 and 0 < said["p50"] <= said["p99"], said
            algbw = size / said["time_us"] / 1e3
            assert near(said["algbw"], algbw, 4) and near(said["busbw"], algbw * factor, 4), said
            assert near(float(half["time"]), said["time_us"], 2) and near(float(half["algbw"]), said["algbw"], 2), (half, said)
            assert near(float(half["busbw"]), said["busbw"], 2) and half["#wrong"] == "0", (half, said)
    assert near(table.average, sum(o["busbw"] for o in objects) / 6, 4), table.average
    return len(objects)


def check_compare(folder):
    """Against ourselves: what is checked is columns, not speed."""
    path = f"{folder}/compared.json"
    done = run("all_reduce", *QUICK, *SIZES, "-t", "2", "--compare", NCCL, "--rounds", "3", "--json", path)
    assert done.returncode == 0, done.stderr
    table, objects = Table(done, ["other", "ratio"]), measurements(path)
    assert "# Compared with: nccl 2." in done.stdout and len(table.rows) == 3 and len(objects) == 12
    for i, row in enumerate(table.rows):
        for in_place, half in enumerate(row[5]):
            ours, theirs = objects[4 * i + 2 * in_place:][:2]
            assert ours["lib"] == "marrow" and theirs["lib"].startswith("nccl 2.") and ours["in_place"] == theirs["in_place"] == bool(in_place)
            assert ours["wrong"] == 0 and theirs["wrong"] is None and half["#wrong"] == "0"
            assert near(float(half["time"]), ours["time_us"], 2) and near(float(half["other"]), theirs["time_us"], 2), (half, theirs)
            assert near(float(half["ratio"]), ours["time_us"] / theirs["time_us"], 2), (half, ours, theirs)


def check_registered(folder):
    """Results are right where the buffers are windows, alone and beside a library that has NCCL's ways of registering."""
    for ranks, how, more in ((["--processes", "2"], "1", []), (["-t", "3"], "2", []), (["-t", "2"], "1", ["--compare", NCCL, "--rounds", "3"]),
                             (["-t", "2"], "2", ["--compare", NCCL, "--rounds", "3"])):
        path = f"{folder}/registered.json"
        pathlib.Path(path).unlink(missing_ok=True)
        done = run("all_gather", *QUICK, "-b", "4M", "-e", "4M", *ranks, "-R", how, "--json", path, *more)
        assert done.returncode == 0 and "OK" in done.stdout, (ranks, how, done.stdout, done.stderr)
        said = measurements(path)
        assert len(said) == (4 if more else 2) and all(o["registered"] == int(how) for o in said), said


def check_wrong(folder):
    """One bit is enough, in any element of any rank or within 4 KiB beside the output. Two rounds of a check: on ordinary and on special values."""
    bytes_, edge = 4096 * RANKS, 4096
    cases = [("all_reduce", 1, 0), ("all_reduce", 0, bytes_ - 1), ("all_reduce", 2, -1), ("all_reduce", 0, -edge), ("all_reduce", 1, bytes_),
             ("all_reduce", 2, bytes_ + edge - 1), ("all_gather", 2, bytes_ - 1), ("broadcast", 1, 777),
             ("reduce_scatter", 0, bytes_ // RANKS - 1)]
    for name, rank, byte in cases:
        within = 0 <= byte < (bytes_ // RANKS if name == "reduce_scatter" else bytes_)
        path = f"{folder}/wrong.json"
        pathlib.Path(path).unlink(missing_ok=True)
        case = [*QUICK, "-b", str(bytes_), "-e", str(bytes_), "-t", str(RANKS), "--json", path]
        spoiled = {"LD_PRELOAD": SPOIL, "SPOIL": f"{name} {rank} {byte}"}
        done = run(name, *case, env=spoiled)
        table = Table(done)
        (row,) = table.rows
        assert done.returncode == 1 and [half["#wrong"] for half in row[5]] == ["2", "2"], (name, rank, byte, done.stdout, done.stderr)
        assert table.out_of_bounds == 4 and table.verdict == "FAILED" and [o["wrong"] for o in measurements(path)] == [2, 2]
        words = f"# wrong: rank {rank} float out of place {bytes_} bytes, element {byte // 4}: expected 0x" if within else \
            f"# wrong: rank {rank}: 1 bytes beside the output were written"
        assert words in done.stderr, (words, done.stderr)
    # Who does not check does not know.
    done = run(name, *case, "-c", "0", env=spoiled)
    assert done.returncode == 0 and [half["#wrong"] for half in Table(done).rows[0][5]] == ["N/A", "N/A"], done.stdout
    assert [o["wrong"] for o in measurements(path)[2:]] == [None, None]
    return len(cases)


def check_refusals():
    cases = [
        (["-b", "8Q"], ["--minbytes", "'8Q'"]), (["-b", "-8"], ["--minbytes", "'-8'"]), (["--maxbytes", ""], ["--maxbytes", "''"]),
        (["-i", "x"], ["--stepbytes", "'x'"]), (["-f", "1.5"], ["--stepfactor", "'1.5'"]), (["-n", "0"], ["--iters", "'0'"]),
        (["-t", "0"], ["--nthreads", "'0'"]), (["-g", "9999"], ["--ngpus", "'9999'"]), (["-d", "float7"], ["--datatype", "'float7'"]),
        (["-o", "sums"], ["--op", "'sums'"]), (["-r", "-2"], ["--root", "'-2'"]), (["-a", "4"], ["--average", "'4'"]),
        (["-z", "4"], ["--blocking", "'4'"]), (["-c", "one"], ["--check", "'one'"]), (["-w", "99999999999"], ["--warmup_iters", "'99999999999'"]),
        (["--target", "tpu"], ["--target", "'tpu'"]), (["--percentile", "101"], ["--percentile", "'101'"]), (["--rounds", "0"], ["--rounds", "'0'"]),
        (["--processes", "0"], ["--processes", "'0'"]), (["--algos", "bulk,nonsense"], ["--algos", "'bulk,nonsense'"]), (["--nosuch"], ["--nosuch"]),
        (["-Q"], ["'Q'"]), (["--iters"], ["--iters", "argument"]), (["-b", "8", "stray"], ["unexpected argument 'stray'"]),
        (["-b", "2K", "-e", "1K"], ["-b 2048", "-e 1024"]), (["-G", "1", "-z", "1"], ["-G", "-z"]),
        (["--compare", NCCL, "--algos", "all"], ["--compare", "--algos"]), (["-t", "1024", "-g", "5"], ["5120 ranks", "4096"]),
        (["-R", "3"], ["--local_register", "'3'"]), (["-R", "1", "-g", "2"], ["-R", "-t or --processes"]),
    ]
    for args, words in cases:
        done = run("all_reduce", *args)
        assert done.returncode == 2 and done.stdout == "" and all(word in done.stderr for word in words), (args, done.returncode, done.stderr)
    done = run("broadcast", "--target", "host", "-t", "2", "-r", "2")
    assert done.returncode == 2 and "-r 2 must be below the number of ranks, 2" in done.stderr, done.stderr
    done = run("all_reduce", *QUICK, "-b", "8", "-e", "8", "-t", "2", "--compare", "/nowhere/libnccl.so.2")
    assert done.returncode == 1 and "--compare: /nowhere/libnccl.so.2" in done.stderr, done.stderr
    done = run("all_reduce", "--help")
    assert done.returncode == 0 and "usage: " in done.stdout and done.stderr == ""
    return len(cases)


with tempfile.TemporaryDirectory() as scratch:
    said = compare_table_and_json("all_reduce", scratch, "float", "sum", ["-t", "3"])
    said += compare_table_and_json("all_gather", scratch, "float", "sum", ["--processes", "3"])
    said += compare_table_and_json("broadcast", scratch, "int8", "sum", ["--ranks", "3"])
    said += compare_table_and_json("reduce_scatter", scratch, "int8", "max", ["-g", "3"])
    check_compare(scratch)
    check_registered(scratch)
    found = check_wrong(scratch)
    refused = check_refusals()
print(f"{said} measurements said twice, {found} faults found, {refused} command lines refused")
