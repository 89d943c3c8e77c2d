#!/usr/bin/env python3
"""JAX's collectives over all GPUs of this machine, one process, on another libnccl.so.2: jax_ranks.py LIBRARY [--own-kernels] | --cpu N.

Each collective is compiled, run more than once and compared with numpy to the bit; all values are small whole numbers, so that every sum is
exact. After each the library must have served a call a GPU. XLA has kernels of its own for small all-reduces: they are off here, and on, as
by default, with --own-kernels, where those calls are not asked for. --cpu N: the same collectives on N of JAX's CPU devices, no library.
"""
import argparse
import os
import sys

import preloaded

DEADLINE_S = 100
NO_KERNELS = "--xla_gpu_experimental_use_collective_kernels="
ALL_REDUCES = ("psum", "pmax", "pmin")
MOVES = ("all_gather", "ppermute", "shift", "all_to_all")
SIZES = (1, 31, 10007, 600011)  # elements a device gives to each; the last sum is above 4 MiB, too large for kernels of XLA


def options():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("library", nargs="?", help="the libnccl.so.2 to test")
    parser.add_argument("--own-kernels", action="store_true", help="XLA may use kernels of its own in the place of NCCL")
    parser.add_argument("--cpu", type=int, metavar="N", help="N CPU devices, without a library")
    given = parser.parse_args()
    if (given.library is None) == (given.cpu is None) or (given.cpu is not None and given.cpu < 2):
        parser.error("either a library, or --cpu and at least 2 devices")
    return given


def start(given):
    """The environment must be as wanted before anything is loaded: with the library this process becomes itself again."""
    flags = os.environ.get("XLA_FLAGS", "")
    if given.cpu:
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={given.cpu}"
        return None
    path = preloaded.library(given.library)
    if "MARROW_TEST_PRELOADED" not in os.environ:
        environment = {**preloaded.environment(path), "MARROW_TEST_PRELOADED": "1"}
        environment.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        if not given.own_kernels:
            environment["XLA_FLAGS"] = f"{flags} {NO_KERNELS}"
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    return path


def devices_of(given):
    try:
        import jax
    except ImportError as error:
        preloaded.skip(f"no JAX here ({error})")
    jax.config.update("jax_enable_x64", True)
    try:
        found = jax.devices("cpu" if given.cpu else "cuda")
    except RuntimeError as error:
        preloaded.skip(f"JAX finds no CUDA device ({str(error).splitlines()[0]})")
    if len(found) < 2:
        preloaded.skip(f"two GPUs are needed, JAX finds {len(found)}")
    return found


given = options()
path = start(given)
preloaded.end_after(DEADLINE_S)
devices = devices_of(given)

import jax # noqa: E402
import numpy # noqa: E402
from jax import lax # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec # noqa: E402

N = len(devices)
RING = [(i, (i + 1) % N) for i in range(N)]
SHIFT = [(i, i + 1) for i in range(N - 1)]  # no one sends to the first device: it gets zeros
LINE = Mesh(numpy.array(devices), ("d",))

COLLECTIVES = {
    "psum": lambda x: lax.psum(x, "d"),
    "pmax": lambda x: lax.pmax(x, "d"),
    "pmin": lambda x: lax.pmin(x, "d"),
    "psum_scatter": lambda x: lax.psum_scatter(x, "d", tiled=True),
    "all_gather": lambda x: lax.all_gather(x, "d", tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "d", RING),
    "shift": lambda x: lax.ppermute(x, "d", SHIFT),
    "all_to_all": lambda x: lax.all_to_all(x, "d", 0, 0, tiled=True),
}


def summed(x):
    """In the type of x; through float64, which holds all of it."""
    return x.astype(numpy.complex128 if x.dtype.kind == "c" else numpy.float64).sum(0).astype(x.dtype)


def wanted(name, x):
    """What the collective gives, a row a device, for what the devices have: the rows of x."""
    everywhere = lambda row: numpy.broadcast_to(row, (N, *row.shape)) # noqa: E731
    if name == "psum":
        return everywhere(summed(x))
    if name in ("pmax", "pmin"):
        return everywhere(x.max(0) if name == "pmax" else x.min(0))
    if name == "psum_scatter":
        return summed(x).reshape(N, -1)
    if name == "all_gather":
        return everywhere(x.reshape(-1))
    if name == "all_to_all":
        return x.reshape(N, N, -1).swapaxes(0, 1).reshape(N, -1)
    got = numpy.zeros_like(x)
    for source, target in RING if name == "ppermute" else SHIFT:
        got[target] = x[source]
    return got


def values(dtype, shape, step):
    """Whole numbers from 0 to 7, others for each device and step."""
    numbers = numpy.arange(numpy.prod(shape)).reshape(shape)
    rows = numpy.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    return ((numbers * 5 + rows * 3 + step) % 8).astype(dtype)


def same(got, expected, what):
    got = numpy.asarray(got)
    assert got.dtype == expected.dtype and got.shape == expected.shape, f"{what}: {got.dtype} {got.shape}"
    equal = got.view(numpy.uint8) == numpy.ascontiguousarray(expected).view(numpy.uint8)
    assert equal.all(), f"{what}: {equal.size - equal.sum()} of {equal.size} bytes differ, the first at {numpy.argmin(equal)}"


def over(mesh, function, spec=PartitionSpec("d")):
    """Compiled; each device sees its own row of the arguments, and gives one of each result."""
    each = jax.shard_map(lambda *rows: jax.tree.map(lambda y: y[None], function(*[row[0] for row in rows])), mesh=mesh, in_specs=spec,
                         out_specs=spec, check_vma=False)
    return jax.jit(each)


def least_calls(names):
    """What an execution must ask of the library."""
    counted = [name for name in names if not (given.own_kernels and name in ALL_REDUCES)]
    return sum(2 * (N - 1) if name == "shift" else 2 * N if name == "ppermute" else N for name in counted)


def check(what, runs, least, run):
    """run(step), runs times, and the calls that they make."""
    before = preloaded.calls() if path else 0
    for step in range(runs):
        run(step)
    served = preloaded.calls() - before if path else least * runs
    assert served >= least * runs, f"{what}: {served} calls served of at least {least * runs}"


def collectives(names, dtype, each, runs=3):
    """All of the names in one program."""
    program = over(LINE, lambda x: tuple(COLLECTIVES[name](x) for name in names))
    what = f"{', '.join(names)} of {each} {numpy.dtype(dtype).name} a device and device"

    def run(step):
        x = values(dtype, (N, N * each), step)
        for name, got in zip(names, program(jax.device_put(x, NamedSharding(LINE, PartitionSpec("d"))))):
            same(got, wanted(name, x), f"{name} in: {what}, run {step}")
    check(what, runs, least_calls(names), run)


def many_at_once():
    """Sums of several sizes and types in one program, which XLA may put into groups."""
    kinds = [(numpy.float32, 5), (numpy.float32, 4099), (numpy.int32, 17), (jax.numpy.bfloat16, 65), (numpy.float32, 1)]
    program = over(LINE, lambda *xs: tuple(lax.psum(x, "d") for x in xs))

    def run(step):
        xs = [values(dtype, (N, each), step) for dtype, each in kinds]
        for x, got in zip(xs, program(*xs)):
            same(got, wanted("psum", x), f"many at once: {x.shape[1]} {x.dtype}")
    check("many at once", 3, 0 if given.own_kernels else N, run)


def loop():
    """A collective in a loop on the devices, each feeding the next."""
    times = 20
    program = over(LINE, lambda x: lax.fori_loop(0, times, lambda i, y: lax.ppermute((y * 3 + i) % 101, "d", RING), x))

    def run(step):
        x = values(numpy.int32, (N, 1021), step)
        expected = x
        for i in range(times):
            expected = wanted("ppermute", (expected * 3 + i) % 101)
        same(program(x), expected, "loop")
    check("loop", 2, times * 2 * N, run)


def by_pmap():
    program = jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i", devices=devices)

    def run(step):
        x = values(numpy.float32, (N, 513), step)
        same(program(x), wanted("psum", x), "pmap")
    check("pmap", 2, 0 if given.own_kernels else N, run)


def in_halves():
    """Sums within pairs, and across them: communicators of some of the devices."""
    spec = PartitionSpec(("a", "b"))
    mesh = Mesh(numpy.array(devices).reshape(N // 2, 2), ("a", "b"))
    program = over(mesh, lambda x: (lax.psum(x, "a"), lax.psum(x, "b")), spec)

    def run(step):
        x = values(numpy.float32, (N, 1003), step)
        grid = x.reshape(N // 2, 2, -1)
        for axis, got in enumerate(program(x)):
            same(got, numpy.broadcast_to(grid.sum(axis, keepdims=True), grid.shape).reshape(N, -1), f"axis {axis}")
    check("in halves", 2, 0 if given.own_kernels else 2 * N, run)


def main():
    if path:
        preloaded.require(path)
    programs = 0
    for name in COLLECTIVES:
        collectives([name], numpy.float32, 1001)
        programs += 1
    for each in SIZES:
        collectives(list(COLLECTIVES), numpy.float32, each)
        programs += 1
    for dtype in ("float16", jax.numpy.bfloat16, "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64"):
        collectives(list(COLLECTIVES), dtype, 4099)
        programs += 1
    collectives(["psum", "psum_scatter", *MOVES], "complex64", 333)
    collectives(MOVES, "bool", 4099)
    collectives(MOVES, "int16", 4099)
    many_at_once()
    loop()
    by_pmap()
    programs += 6
    if N > 2 and N % 2 == 0:
        in_halves()
        programs += 1
    if path:
        preloaded.require(path)
        others = [file for file in preloaded.mapped() if os.path.realpath(file) != path]
        print(f"{preloaded.calls()} calls served by {path}" + (f"; mapped, not called: {', '.join(others)}" if others else ""))
    print(f"JAX {jax.__version__}: {programs} programs of collectives on {N} devices, to the bit")


if __name__ == "__main__":
    main()
