"""What the tests of frameworks share: this library preloaded as their NCCL, the proof that it serves them, and an end to hangs."""
import ctypes
import faulthandler
import os
import sys

SKIPPED = 77


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def library(path):
    """The absolute path of the library to test; the end with exit status 2 if there is none."""
    if not os.path.isfile(path):
        print(f"{os.path.basename(sys.argv[0])}: no library {path}", file=sys.stderr)
        sys.exit(2)
    return os.path.realpath(path)


def environment(path):
    """This process's, with the library first in LD_PRELOAD."""
    rest = [entry for entry in os.environ.get("LD_PRELOAD", "").replace(" ", ":").split(":") if entry and entry != path]
    return {**os.environ, "LD_PRELOAD": ":".join([path] + rest)}


def end_after(seconds):
    """A process that hangs shows where, and leaves with 1."""
    faulthandler.dump_traceback_later(seconds, exit=True)


class Where(ctypes.Structure):
    """Dl_info of dladdr()."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def mapped():
    """The files named libnccl.so* in this process."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {"/" + line.rstrip("\n").partition("/")[2] for line in maps if "/" in line}
    return sorted(path for path in paths if os.path.basename(path).startswith("libnccl.so"))


def serving():
    """The file that NCCL's names lead to in this process, or None."""
    everybody, where = ctypes.CDLL(None), Where()
    function = getattr(everybody, "ncclAllReduce", None)
    if function is None or not everybody.dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(where)):
        return None
    return os.path.realpath(os.fsdecode(where.file))


def require(path):
    """The library is mapped here, and NCCL's names lead to it."""
    assert path in map(os.path.realpath, mapped()), f"{path} is not among the mapped: {mapped()}"
    assert serving() == path, f"NCCL's names lead to {serving()}, not to {path}"


def calls():
    """Operations that the library has taken in this process so far."""
    function = ctypes.CDLL(None).marrow_nccl_calls
    function.restype = ctypes.c_uint64
    return function()
