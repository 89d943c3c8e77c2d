#!/usr/bin/env python3
"""Random programs on two hosts below every fault the model of the NIC can make. What a network may do (order, delay, silence for a while)
must not change a bit; what breaks a connection must be reported in words, long before the deadline by all ranks if a NIC says that it has
failed. Nothing hangs. Arguments: marrow-softnic, random_programs."""
import concurrent.futures
import itertools
import os
import subprocess
import sys
import time

DEADLINE_MS = 3000
LIMIT_S = 60
PROMPT_S = 10

# Survived: right bits, exit status 0.
HARMLESS = ["reorder=50", "reorder=100,interleave=50", "late=300", "eager,torn=10", "delay=200,coalesce=4", "merge=200", "poison=219",
            "rate=200/host=host1", "reorder=30,late=50,torn=5,poison=7,interleave=20"]
# Reported: the words of at least one rank; the program fails and ends.
BREAKING = {
    "error=0x15@200": ["gave up on rank"],
    "error=0x04@90": ["gave up on rank"],
    "vanish@60": ["NIC failed: mlx5"],
    "vanish@100/host=host1": ["NIC failed: mlx5"],
    "mr_gone@50": ["the remote key does not cover the memory", "flushed"],
    "drop_doorbell=100": ["doorbell does not reach"],
}


def run(softnic, program, faults, arguments):
    environment = dict(os.environ, MARROW_TEST_HOSTS="2", MARROW_TEST_NICS="1")
    start = time.monotonic()
    # A key that is gone is what mr_gone means, no mistake of the program's.
    command = [softnic, "run", "--hosts", "2", "--timeout", str(LIMIT_S), "--checks=-remote_access,-local_access", "--faults", faults, "--",
               program, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return done, time.monotonic() - start


def survives(softnic, program, seed, faults, ranks):
    """What went wrong, in words; nothing if nothing did."""
    done, seconds = run(softnic, program, f"seed={seed},{faults}", ["--ops", "60", "--room", "100000", "--ranks", *ranks])
    if done.returncode == 0:
        return ""
    return f"{faults}, {ranks} ranks: exit status {done.returncode} after {seconds:.1f} s\n{done.stdout[-1500:]} {done.stderr[-3000:]}"


def reports(softnic, program, seed, faults, words, ranks):
    # A NIC that is dead tells nobody: the ranks of the other host must not need their deadline.
    deadline = 4 * PROMPT_S * 1000 if "host1" in faults else DEADLINE_MS
    arguments = ["--timeout-ms", str(deadline), "--comms", "1", "--ranks", *ranks]
    done, seconds = run(softnic, program, f"seed={seed},{faults}", ["--ops", "100" if ranks == ["2"] else "200", *arguments])
    text = done.stdout + done.stderr
    if done.returncode not in (0, 99) and seconds <= PROMPT_S and any(w in text for w in words):
        return ""
    return f"{faults}, {ranks} ranks: exit status {done.returncode} after {seconds:.1f} s, wanted one of {words}\n{text[-3000:]}"


def main():
    softnic, program = sys.argv[1:3]
    seed = os.environ.get("MARROW_TEST_SEED", "7")
    # Three ranks without rails, four with. Rings and trees meet what mixes most; rings what breaks most.
    harmless = [*itertools.product(HARMLESS, [["3"], ["4", "--algo", "rail"]]), (HARMLESS[1], ["3", "--algo", "ring"]), (HARMLESS[-1], ["3", "--algo", "ring"]),
                (HARMLESS[1], ["5", "--algo", "tree"]), (HARMLESS[-1], ["5", "--algo", "tree"])]
    breaking = [*itertools.product(BREAKING.items(), [["2"], ["4", "--algo", "rail"]]),
                *itertools.product([*BREAKING.items()][:3], [["4", "--algo", "ring"]])]
    # Two at once: most of the time of those that break is waiting.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = [*pool.map(lambda row: survives(softnic, program, seed, *row), harmless),
                   *pool.map(lambda row: reports(softnic, program, seed, *row[0], row[1]), breaking)]
    wrong = [words for words in results if words]
    print("\n".join(wrong))
    print(f"seed {seed}: {len(harmless)} programs survived their faults, {len(breaking)} reported: {'FAILED' if wrong else 'ok'}")
    return 1 if wrong else 0


sys.exit(main())
