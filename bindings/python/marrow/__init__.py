"""Marrow in Python programs: its libnccl.so.2 takes the place of NCCL.

    import marrow
    marrow.preload()          # before anything that loads NCCL: torch, cupy, jax
    import torch

or, without a change to the program: ``marrow-run [torchrun arguments]``, ``python -m marrow.preload program.py``,
``LD_PRELOAD=$(python -m marrow.preload) program``.
"""

from .library import calls, is_serving, library_path, others_mapped, preload

__all__ = ["calls", "is_serving", "library_path", "others_mapped", "preload"]
__version__ = "@VERSION@"
