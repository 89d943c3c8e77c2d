#!/usr/bin/env python3
"""A wheel is built, installed into a fresh environment, and serves programs there: preloaded in all ways, with a ctypes wrapper as
vLLM's. Arguments: build_wheel, version, libmarrow, libnccl."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile

# A program that knows NCCL's interface only, by its soname, the way vLLM's wrapper and others do it.
PROGRAM = '''
import ctypes, os, sys, threading
class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]
nccl = ctypes.CDLL("libnccl.so.2")
version = ctypes.c_int()
assert nccl.ncclGetVersion(ctypes.byref(version)) == 0 and version.value == 22809, version.value
nccl.ncclGetErrorString.restype = nccl.ncclGetLastError.restype = ctypes.c_char_p
nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, Id, ctypes.c_int]
nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
nccl.ncclCommDestroy.argtypes = [ctypes.c_void_p]
def check(result):
    assert result == 0, nccl.ncclGetLastError(None)
unique, sums = Id(), [0.0, 0.0]
check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
def rank(r):
    comm, data = ctypes.c_void_p(), (ctypes.c_float * 5)(*[r + 1.0] * 5)
    check(nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique, r))
    check(nccl.ncclAllReduce(data, data, 5, 7, 0, comm, None))
    sums[r] = data[4]
    check(nccl.ncclCommDestroy(comm))
threads = [threading.Thread(target=rank, args=(r,)) for r in range(2)]
[t.start() for t in threads]; [t.join() for t in threads]
assert sums == [3.0, 3.0], sums
served = {line.split()[-1] for line in open("/proc/self/maps") if "libnccl" in line}
assert len(served) == 1, served
print("served by", served.pop(), "argv", sys.argv[1:])
'''

CHECKS = '''
import ctypes, os, subprocess, sys
import marrow
assert not marrow.is_serving() and not marrow.others_mapped()
try:
    marrow.calls()
    sys.exit("calls() without the library")
except RuntimeError as error:
    assert "preload" in str(error)
path = marrow.preload()
assert path == marrow.library_path() and os.path.isabs(path) and marrow.is_serving(), path
maps = open("/proc/self/maps").read()
assert os.path.dirname(path) + "/libmarrow.so.0" in maps and "libcuda" not in maps
assert marrow.calls() == 0
exec(compile(open(sys.argv[1]).read(), "program", "exec"))
assert marrow.calls() == 2, marrow.calls()
assert os.environ["LD_PRELOAD"].split(":")[0] == path
marrow.preload()
assert os.environ["LD_PRELOAD"].count(path) == 1
import marrow.preload                       # the module of that name is callable too
assert marrow.preload() == path
child = subprocess.run([sys.executable, sys.argv[1]], capture_output=True, text=True)
assert child.returncode == 0 and path in child.stdout, child.stderr
'''

LATE = '''
import ctypes, sys
ctypes.CDLL(sys.argv[1])
import marrow
try:
    marrow.preload()
    sys.exit("preload after another libnccl was not refused")
except RuntimeError as error:
    assert sys.argv[1] in str(error) and "before" in str(error), error
assert not marrow.is_serving() and marrow.others_mapped() == [sys.argv[1]]
'''

# As torch 2.11 does: its own by path, after ours; what is linked to the name is bound to ours.
BESIDE = '''
import ctypes, sys
import marrow
marrow.preload()
ctypes.CDLL(sys.argv[1])
assert marrow.others_mapped() == [sys.argv[1]] and marrow.is_serving()
assert marrow.preload() == marrow.library_path()
'''

TORCHRUN = '''
import os, sys
maps = open("/proc/self/maps").read()
print("torchrun", sys.argv[1:], "libnccl" in maps, os.environ["LD_PRELOAD"])
'''


def environment(**more):
    fresh = {key: value for key, value in os.environ.items() if not key.startswith(("LD_", "PYTHON", "NCCL_", "MARROW_"))}
    fresh.update(MARROW_TARGET="host", MARROW_TIMEOUT_MS="30000", PYTHONDONTWRITEBYTECODE="1", **more)
    return fresh


def run(*command, wanted=0, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment(**more))
    if done.returncode != wanted:
        sys.exit(f"{command}: {done.returncode} instead of {wanted}\n{done.stdout}{done.stderr}")
    return done


def install(wheel, python, packages):
    """By pip where this Python has it; a wheel is an archive whose layout is the installed one, entry points aside."""
    if importlib.util.find_spec("pip"):
        run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", "--quiet", wheel)
        return True
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    return False


def harmless(library):
    """In processes that do not know it: same output, no word, no thread, no descriptor."""
    look = "ls /proc/self/fd | wc -l; ls /proc/self/task | wc -l; echo $((6 * 7))"
    plain, loaded = run("/bin/sh", "-c", look), run("/bin/sh", "-c", look, LD_PRELOAD=str(library))
    assert plain.stdout == loaded.stdout and loaded.stderr == "", loaded
    assert run("/bin/true", LD_PRELOAD=str(library)).stderr == ""


def main():
    build_wheel, version, libmarrow, libnccl = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = pathlib.Path(scratch_name)
        made = [run(sys.executable, build_wheel, "--version", version, "--out", scratch / out, libmarrow, libnccl).stdout.strip() for out in "ab"]
        assert pathlib.Path(made[0]).read_bytes() == pathlib.Path(made[1]).read_bytes(), "two builds differ"
        assert pathlib.Path(made[0]).name.startswith(f"marrow-{version}-py3-none-manylinux_2_"), made
        # In a folder of another depth, and the build tree out of the way of what it finds.
        place = scratch / "some" / "where" / "venv"
        venv.create(place, with_pip=False, symlinks=True)
        python = place / "bin/python"
        packages = next(place.glob("lib/python*/site-packages"))
        by_pip = install(made[0], python, packages)
        library = packages / "marrow/lib/libnccl.so.2"
        program, checks, late = scratch / "program.py", scratch / "checks.py", scratch / "late.py"
        program.write_text(PROGRAM)
        checks.write_text(CHECKS)
        late.write_text(LATE)
        needed = run("readelf", "-d", library).stdout
        assert "[$ORIGIN]" in needed, needed
        run(python, checks, program)
        stranger = scratch / "libnccl.so.2"
        shutil.copyfile(library, stranger)
        shutil.copyfile(packages / "marrow/lib/libmarrow.so.0", scratch / "libmarrow.so.0")
        run(python, late, stranger)
        late.write_text(BESIDE)
        run(python, late, stranger)
        # The other ways in.
        assert run(python, "-m", "marrow.preload").stdout.strip() == str(library)
        assert f"served by {library} argv ['x', '-y']" in run(python, "-m", "marrow.preload", program, "x", "-y").stdout
        assert str(library) in run(python, program, LD_PRELOAD=str(library)).stdout
        said = run(python, program, LD_PRELOAD=str(library), NCCL_DEBUG="VERSION", NCCL_FOO="1").stderr
        assert f"2.28.9 served by Marrow {version}, {library}" in said and "ignored: NCCL_FOO" in said, said
        harmless(library)
        # torchrun: without it, and with one that tells what it got.
        launch = [place / "bin/marrow-run"] if by_pip else [python, "-m", "marrow.run"]
        assert "no torch" in run(*launch, "--nproc-per-node", "2", "x.py", wanted=1).stderr
        (packages / "torch/distributed").mkdir(parents=True)
        (packages / "torch/__init__.py").write_text("")
        (packages / "torch/distributed/__init__.py").write_text("")
        (packages / "torch/distributed/run.py").write_text(TORCHRUN)
        said = run(*launch, "--nproc-per-node", "2", "x.py", LD_PRELOAD="/lib/none.so").stdout
        assert said.startswith("torchrun ['--nproc-per-node', '2', 'x.py'] True") and f"{library}:/lib/none.so" in said, said
    print("a wheel was built, installed" + (" by pip" if by_pip else "") + " and serves")


main()
