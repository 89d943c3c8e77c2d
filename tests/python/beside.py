"""Programs of PyTorch on two ranks, by NCCL or by another libnccl.so.2."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def torchrun(library, program, *arguments, timeout=240, also=None):
    """Runs program on two ranks; its report."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        env = dict(os.environ, OMP_NUM_THREADS="1", **(also or {}))
        if library:
            env["LD_PRELOAD"] = library
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(program),
                   "--json", report.name, *arguments]
        done = subprocess.run(command + (["--expect-marrow"] if library else []), env=env, capture_output=True, text=True, timeout=timeout)
        text = pathlib.Path(report.name).read_text(encoding="utf-8")
    if done.returncode or not text:
        raise RuntimeError(f"{program} by {library or 'NCCL'}: exit status {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(text)
