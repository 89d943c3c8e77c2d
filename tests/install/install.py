#!/usr/bin/env python3
"""Installs the build into a directory of its own: everything is there and nothing else, a program finds headers and library by pkg-config and runs,
the tools and libnccl.so.2 run from there; uninstalling leaves nothing. The build's record of an earlier install is put back.
Arguments: build directory, version, parts that it has (mpi, softnic), the compiler's command."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

BUILD, VERSION, PARTS, COMPILER = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3].split(","), sys.argv[4:]
for tool in "meson", "ninja", "pkg-config":
    if not shutil.which(tool):
        print(f"skipped: no {tool} here")
        sys.exit(77)

PROGRAM = """
#include <marrow/marrow.h>
int main(void)
{
	struct marrow_config config = MARROW_CONFIG_INIT;
	struct marrow_unique_id id;
	struct marrow_comm *comm;
	float in[3] = {1, 2, 3}, out[3] = {0};
	config.target = MARROW_TARGET_HOST;
	if (marrow_get_unique_id(&id) || marrow_comm_init(&comm, 1, &id, 0, &config))
		return 1;
	if (marrow_all_reduce(in, out, 3, MARROW_FLOAT32, MARROW_SUM, comm, 0) || out[0] != 1 || out[2] != 3)
		return 2;
	return marrow_get_version() == MARROW_VERSION && !marrow_comm_destroy(comm) ? 0 : 3;
}
"""


def run(*command, **env):
    done = subprocess.run(command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed ({done.returncode}):\n{done.stdout}")
    return done.stdout


def option(name):
    return next(o["value"] for o in OPTIONS if o["name"] == name)


def library(directory, name, version, soversion):
    """Three names of it: for linking, for running, and the file."""
    return {f"{directory}/lib{name}.so": f"lib{name}.so.{soversion}", f"{directory}/lib{name}.so.{soversion}": f"lib{name}.so.{version}",
            f"{directory}/lib{name}.so.{version}": None}


def expected():
    """Relative to the prefix: where links lead, None for files."""
    lib, include, share = option("libdir"), f"{option('includedir')}/marrow", f"{option('datadir')}/marrow/clusters"
    programs, headers, modules = ["marrow-sim", "marrow-topo"], ["collectives", "comm", "marrow", "types", "window", "nccl/nccl"], ["marrow"]
    found = {**library(lib, "marrow", VERSION, "0"), **library(f"{lib}/marrow", "nccl", "2.28.9", "2")}
    if "mpi" in PARTS:
        found.update(library(lib, "marrow_mpi", VERSION, "0"))
        headers.append("mpi")
        modules.append("marrow-mpi")
    if "softnic" in PARTS:
        found[f"{lib}/libmarrow-softnic.so"] = None
        programs.append("marrow-softnic")
    found.update({f"{option('bindir')}/{p}": None for p in programs} | {f"{include}/{h}.h": None for h in headers})
    found.update({f"{lib}/pkgconfig/{m}.pc": None for m in modules})
    found.update({f"{share}/{c}.cluster": None for c in ("cloud8", "h200-pair", "h200x8", "host-pair")})
    return found


def present(root):
    return {str(p.relative_to(root)): os.readlink(p) if p.is_symlink() else None for p in root.rglob("*") if p.is_symlink() or not p.is_dir()}


def serves(root, scratch):
    lib = root / option("libdir")
    source, program = scratch / "program.c", scratch / "program"
    source.write_text(PROGRAM)
    # The files of this install only, where they lie now.
    packages = {"PKG_CONFIG_LIBDIR": str(lib / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(scratch / "staged"), "PKG_CONFIG_PATH": ""}
    flags = run("pkg-config", "--cflags", "--libs", "marrow", **packages).split()
    assert str(root / option("includedir")) in " ".join(flags) and str(lib) in " ".join(flags), flags
    assert run("pkg-config", "--modversion", "marrow", **packages).strip() == VERSION
    run(*COMPILER, "-std=c11", "-Wall", "-Werror", str(source), *flags, "-o", str(program))
    assert "libmarrow.so.0 => " + str(lib / "libmarrow.so.0") in run("ldd", str(program), LD_LIBRARY_PATH=str(lib))
    run(str(program), LD_LIBRARY_PATH=str(lib))
    if "mpi" in PARTS:
        assert "-lmarrow_mpi" in run("pkg-config", "--libs", "marrow-mpi", PKG_CONFIG_PATH=str(lib / "pkgconfig"))
    programs = root / option("bindir")
    assert "usage: marrow-topo" in run(str(programs / "marrow-topo"), "--help")
    assert "complete" in run(str(programs / "marrow-sim"), "--sizes", "4K", str(root / option("datadir") / "marrow/clusters/host-pair.cluster"))
    if "softnic" in PARTS: # which finds the model from where it lies itself
        model = run(str(programs / "marrow-softnic"), "run", "--", "sh", "-c", "echo $LD_PRELOAD").strip()
        assert pathlib.Path(model).resolve() == lib / "libmarrow-softnic.so", model
    # It finds libmarrow.so.0 by itself.
    load = "import ctypes, sys; n = ctypes.CDLL(sys.argv[1]); v = ctypes.c_int(); sys.exit(n.ncclGetVersion(ctypes.byref(v)) or v.value != 22809)"
    run(sys.executable, "-c", load, str(lib / "marrow/libnccl.so.2"), LD_LIBRARY_PATH="")


OPTIONS = json.loads(run("meson", "introspect", "--buildoptions", str(BUILD)))
record = BUILD / "meson-logs/install-log.txt"
earlier = record.read_bytes() if record.exists() else None
with tempfile.TemporaryDirectory() as folder:
    here = pathlib.Path(folder).resolve()
    stage = here / "staged"
    try:
        run("meson", "install", "-C", str(BUILD), "--no-rebuild", "--quiet", "--destdir", str(stage))
        prefix = stage / option("prefix").lstrip("/")
        want, have = expected(), present(prefix)
        assert have == want, (f"missing: {sorted(want.keys() - have.keys())}, beside: {sorted(have.keys() - want.keys())}",
                              {k: (want[k], have[k]) for k in want.keys() & have.keys() if want[k] != have[k]})
        assert len(present(stage)) == len(have), present(stage).keys()
        serves(prefix, here)
        run("ninja", "-C", str(BUILD), "uninstall", DESTDIR=str(stage))
        left = sorted(present(stage))
        assert left == [], left
    finally:
        record.unlink(missing_ok=True)
        if earlier is not None:
            record.write_bytes(earlier)
print(f"{len(want)} files installed, used and taken away")
