"""python -m marrow.preload [program.py | -m module] [arguments]: runs a program with Marrow as its NCCL. Without arguments: prints the
library's path, for LD_PRELOAD.

The module is also what marrow.preload() calls, should it be imported by that name.
"""

import os
import runpy
import sys
import types

from .library import preload, preload_children, require


class _Callable(types.ModuleType):
    def __call__(self, *args, **kwargs):
        return preload(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable


def main(arguments):
    path = require()
    if not arguments:
        print(path)
        return
    preload()
    preload_children(os.environ)
    if arguments[0] == "-m":
        if len(arguments) < 2:
            sys.exit("python -m marrow.preload -m: which module?")
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
