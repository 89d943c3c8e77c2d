"""Where libnccl.so.2 is, how it gets into this process, and whether it serves it."""

import ctypes
import os
import sys

_SONAME = "libnccl.so.2"


def library_path():
    """The absolute path of this package's libnccl.so.2."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", _SONAME)


def _mapped():
    """The files named libnccl.so* in this process, each once."""
    found = set()
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path and os.path.basename(path).startswith("libnccl.so"):
                found.add("/" + path)
    return found


def _is_ours(path):
    return os.path.realpath(path) == os.path.realpath(library_path())


class _Where(ctypes.Structure):
    """Dl_info of dladdr()."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def _file_that_answers(symbol="ncclAllReduce"):
    """The file that this process's global symbols give for a name, or None."""
    everybody, where = ctypes.CDLL(None), _Where()
    function = getattr(everybody, symbol, None)
    if function is None or not everybody.dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(where)):
        return None
    return os.fsdecode(where.file)


def others_mapped():
    """Other files of NCCL's name in this process. They need not be in use: torch 2.11 maps the one of its wheel by path, and calls the one
    that was there first."""
    return sorted(path for path in _mapped() if not _is_ours(path))


def is_serving():
    """True if this package's library is what NCCL's names mean in this process. Whether it is used, calls() tells."""
    file = _file_that_answers()
    return file is not None and _is_ours(file)


def preload(children=True):
    """Loads libnccl.so.2, so that what asks for that name later is served by it; returns its path.

    Must come before the first import of what loads NCCL (torch, cupy, jax): RuntimeError else. children: processes started from
    here on are served too, through LD_PRELOAD.
    """
    path = library_path()
    others = others_mapped()
    if others and not is_serving():
        raise RuntimeError(
            f"marrow.preload() came too late: {others[0]} is loaded already; call it before importing torch, cupy or jax, "
            "or start the program with marrow-run or python -m marrow.preload"
        )
    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    if children:
        preload_children(os.environ)
    return path


def preload_children(environment):
    """Puts the library first in an environment's LD_PRELOAD."""
    path = library_path()
    if " " in path or ":" in path:
        raise RuntimeError(f"LD_PRELOAD cannot name {path}: its separators are space and colon; install the package elsewhere")
    rest = [entry for entry in environment.get("LD_PRELOAD", "").replace(" ", ":").split(":") if entry and entry != path]
    environment["LD_PRELOAD"] = ":".join([path] + rest)


def calls():
    """Operations that the library has taken in this process so far."""
    if not any(_is_ours(path) for path in _mapped()):
        raise RuntimeError("Marrow's libnccl.so.2 is not loaded in this process: call marrow.preload() first")
    function = ctypes.CDLL(library_path()).marrow_nccl_calls
    function.restype = ctypes.c_uint64
    return function()


def require():
    """The path, or the end of the program with the reason."""
    path = library_path()
    if os.path.exists(path):
        return path
    sys.exit(f"{path} is missing: this package was not made by build_wheel, or is damaged; install it again")
