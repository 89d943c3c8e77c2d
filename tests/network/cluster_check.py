"""scripts/cluster_check with the real programs on the model of a NIC: as ranks of a launcher, and the NIC self test of one host.
Arguments: marrow-softnic, the source root, the build root. Settings of hosts: tests/unit/cluster_check."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOFTNIC, SOURCE, BUILD = sys.argv[1:4]


def run(place, *flags, launcher):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MARROW_")} | {"PATH": f"{place}/bin:{os.environ['PATH']}"}
    done = subprocess.run([SOFTNIC, "run", *launcher, "--stats", place / "stats", "--", f"{SOURCE}/scripts/cluster_check", "--root", place, "--log",
                           place / "log", "--bin", BUILD, "--target", "host", *flags], env=env, capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout + done.stderr


def writes_between(place, one, other):
    queues = [json.loads(line) for line in (place / "stats").read_text().splitlines()]
    return sum(q["by_opcode"].get("WRITE", {}).get("wqes", 0) for q in queues if (q["host"], q["peer_host"]) == (one, other))


with tempfile.TemporaryDirectory() as name:
    place = pathlib.Path(name)
    (place / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    (place / "bin").mkdir()
    # The host's name is in the identities that the self test makes up.
    (place / "bin/uname").write_text("#!/bin/sh\necho here\n")
    (place / "bin/uname").chmod(0o755)

    status, text = run(place, "--only", "collectives,exchanges", "--max", "4K", launcher=["-n", "2", "--hosts", "2"])
    assert status == 0 and text.count("over 2 ranks, checked") == 9 and "== scatter" in text, text
    assert writes_between(place, "host0", "host1") and writes_between(place, "host1", "host0"), text

    own = ["-n", "1", "--host-ids", "here-check0,here-check1"]
    status, text = run(place, "--local", "--only", "self", launcher=own)
    assert status == 0 and "ok: NIC self test" in text, text
    assert writes_between(place, "here-check0", "here-check1"), text
    status, text = run(place, "--local", "--only", "self", launcher=[*own, "--faults", "vanish@20"])
    assert status == 1 and "FAIL: NIC self test" in text and "the device has failed" in text, text
