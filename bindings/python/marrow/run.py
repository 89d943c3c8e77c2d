"""marrow-run: torchrun with Marrow as the NCCL of its workers."""

import importlib.util
import os
import sys

from .library import preload_children, require

USAGE = """usage: marrow-run [torchrun arguments] program.py [its arguments]

Starts torchrun with libnccl.so.2 of Marrow first in LD_PRELOAD; everything else is torchrun's.
"""


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(USAGE, end="")
        sys.exit(0 if len(sys.argv) > 1 else 2)
    require()
    if importlib.util.find_spec("torch") is None:
        sys.exit("marrow-run: there is no torch in this Python; for other programs use python -m marrow.preload")
    try:
        preload_children(os.environ)
    except RuntimeError as error:
        sys.exit(f"marrow-run: {error}")
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run"] + sys.argv[1:])


if __name__ == "__main__":
    main()
