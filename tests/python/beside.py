"""Programs of PyTorch on two ranks, by NCCL or by another libnccl.so.2."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
running = set() # leaders of groups


def run_group(command, env, timeout):
    """A program in a session of its own, of which nothing is left behind when this returns or raises: exit status, stderr. None: not done in time."""
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True) as done:
        running.add(done.pid)
        try:
            _, words = done.communicate(timeout=timeout)
            return done.returncode, words
        except subprocess.TimeoutExpired:
            end_group(done.pid)
            return None, done.communicate()[1]
        finally:
            end_group(done.pid)
            running.discard(done.pid)


def descendants(leader):
    """Processes that leader started, and theirs: torchrun gives each rank a session of its own, which no signal to a group reaches."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue # it is gone
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, at = list(children.get(leader, [])), 0
    while at < len(found):
        found += children.get(found[at], [])
        at += 1
    return found


def end_group(leader):
    for end, whom in [(os.killpg, leader)] + [(os.kill, pid) for pid in descendants(leader)]:
        try:
            end(whom, signal.SIGKILL)
        except ProcessLookupError:
            pass


def leave_nothing():
    """An interrupt, or the end of somebody's patience, ends what runs too."""

    def leave(number, _):
        for leader in list(running):
            end_group(leader)
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def torchrun(library, program, *arguments, timeout=240, also=None):
    """Runs program on two ranks, by NCCL if library is None; its report."""
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    env.update(OMP_NUM_THREADS="1", **(also or {}))
    if library:
        env["LD_PRELOAD"] = library
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(program), "--json", file.name, *arguments]
        status, words = run_group(command + (["--expect-marrow"] if library else []), env, timeout)
        text = pathlib.Path(file.name).read_text(encoding="utf-8")
    if status != 0 or not text:
        what = f"not done within {timeout} s" if status is None else f"exit status {status}"
        raise RuntimeError(f"{program} by {library or 'NCCL'}: {what}\n{words[-3000:]}")
    report = json.loads(text)
    if not library and report["marrow_calls"] is not None:
        raise RuntimeError(f"{program}: {report['libnccl']} is Marrow's, where NCCL was wanted")
    return report
