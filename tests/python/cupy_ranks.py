#!/usr/bin/env python3
"""CuPy's collectives over all GPUs of this machine on another libnccl.so.2: cupy_ranks.py LIBRARY [--host N].

First a process a GPU (cupy.cuda.nccl.NcclCommunicator, then cupyx.distributed), then one process with all GPUs (initAll, groups). Results
are compared with numpy to the bit; all values are small whole numbers, so that every sum is exact. --host N: CuPy's binding of NCCL with
numpy's arrays on the library's host target, for machines without GPUs.
"""
import argparse
import functools
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time

import preloaded

try:
    import numpy
except ImportError:
    numpy = None  # and so no CuPy

DEADLINE_S = 100
TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
SIZES = ((1, TYPES), (4099, TYPES), (1000003, ("float32", "int32", "float16")))  # elements a rank gives to each


def options():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("library", help="the libnccl.so.2 to test")
    parser.add_argument("--host", type=int, metavar="N", help="N ranks on the host target, without GPUs")
    parser.add_argument("--rank", help=argparse.SUPPRESS)  # of a process started from here: a rank, or "all"
    parser.add_argument("--ranks", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--id", default="", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.host is not None and given.host < 2:
        parser.error("--host: at least 2 ranks")
    given.library = preloaded.library(given.library)
    return given


def load():
    """CuPy and its binding of NCCL; the binding alone says nothing of why it could not be loaded."""
    try:
        import cupy
        from cupy.cuda import nccl
    except ImportError as error:
        preloaded.skip(f"no CuPy here ({error})")
    assert nccl.available, "CuPy could not load libnccl.so.2"
    return cupy, nccl


class Memory:
    """Arrays where the library can use them: on this thread's GPU, or numpy's own."""

    def __init__(self, cupy=None):
        self.cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True) if cupy else None
        self.queue = self.stream.ptr if cupy else 0

    def place(self, values):
        if not self.cupy:
            return numpy.array(values)
        array = self.cupy.asarray(values)
        self.cupy.cuda.Device().synchronize()
        return array

    def address(self, array, skipped=0):
        start = array.data.ptr if self.cupy else array.ctypes.data
        return start + skipped * array.itemsize

    def wait(self):
        if self.cupy:
            self.stream.synchronize()

    def read(self, array):
        return array.get() if self.cupy else array


def values(dtype, rank, count, most=3):
    return ((numpy.arange(count) * 5 + rank) % most + 1).astype(dtype)


def same(got, expected, what):
    assert got.dtype == expected.dtype and got.shape == expected.shape, f"{what}: {got.dtype} {got.shape}"
    equal = got.view(numpy.uint8) == numpy.ascontiguousarray(expected).view(numpy.uint8)
    assert equal.all(), f"{what}: {equal.size - equal.sum()} of {equal.size} bytes differ, the first at {numpy.argmin(equal)}"


class Rank:
    """One rank's calls and what they must give. Each method is a collective; all ranks call the same in the same order, in a group if
    one thread has several."""

    def __init__(self, nccl, memory, comm, rank, n):
        self.nccl, self.memory, self.comm, self.rank, self.n = nccl, memory, comm, rank, n
        self.expected, self.kept = [], []

    def inputs(self, dtype, count):
        return [values(dtype, rank, count) for rank in range(self.n)]

    def expect(self, array, wanted, what):
        """To be looked at when the group has ended."""
        self.expected.append((array, wanted, f"rank {self.rank} of {self.n}: {what}"))

    def look(self):
        self.memory.wait()
        for array, wanted, what in self.expected:
            same(self.memory.read(array), wanted, what)
        self.expected.clear()
        self.kept.clear()

    def pair(self, count, dtype, receives=None):
        """What this rank gives, and room for what it gets; both stay until look(), when no one uses them any more."""
        both = self.memory.place(values(dtype, self.rank, count)), self.memory.place(numpy.zeros(receives or count, dtype))
        self.kept.append(both)
        return both

    def kind(self, dtype):
        return getattr(self.nccl, f"NCCL_{dtype.upper()}")

    def all_reduce(self, dtype, each):
        count, xs = each * self.n, self.inputs(dtype, each * self.n)
        operations = {"SUM": numpy.add, "PROD": numpy.multiply, "MAX": numpy.maximum, "MIN": numpy.minimum}
        for name, operation in operations.items():
            mine, out = self.pair(count, dtype)
            into = mine if name == "MAX" else out  # that one in place
            self.comm.allReduce(self.memory.address(mine), self.memory.address(into), count, self.kind(dtype),
                                getattr(self.nccl, f"NCCL_{name}"), self.memory.queue)
            self.expect(into, functools.reduce(operation, xs), f"allReduce {name} of {count} {dtype}")

    def reduce(self, dtype, each):
        count, root = each * self.n, self.n - 1
        mine, out = self.pair(count, dtype)
        self.comm.reduce(self.memory.address(mine), self.memory.address(out), count, self.kind(dtype), self.nccl.NCCL_SUM, root,
                         self.memory.queue)
        if self.rank == root:
            self.expect(out, functools.reduce(numpy.add, self.inputs(dtype, count)), f"reduce of {count} {dtype}")

    def broadcast(self, dtype, each):
        root = self.n - 1
        mine, out = self.pair(each, dtype)
        self.comm.broadcast(self.memory.address(mine), self.memory.address(out), each, self.kind(dtype), root, self.memory.queue)
        self.expect(out, values(dtype, root, each), f"broadcast of {each} {dtype}")
        mine, _ = self.pair(each, dtype)
        self.comm.bcast(self.memory.address(mine), each, self.kind(dtype), 0, self.memory.queue)
        self.expect(mine, values(dtype, 0, each), f"bcast of {each} {dtype}")

    def all_gather(self, dtype, each):
        mine, out = self.pair(each, dtype, each * self.n)
        self.comm.allGather(self.memory.address(mine), self.memory.address(out), each, self.kind(dtype), self.memory.queue)
        self.expect(out, numpy.concatenate(self.inputs(dtype, each)), f"allGather of {each} {dtype}")

    def reduce_scatter(self, dtype, each):
        mine, out = self.pair(each * self.n, dtype, each)
        self.comm.reduceScatter(self.memory.address(mine), self.memory.address(out), each, self.kind(dtype), self.nccl.NCCL_SUM,
                                self.memory.queue)
        total = functools.reduce(numpy.add, self.inputs(dtype, each * self.n))
        self.expect(out, total[each * self.rank:each * (self.rank + 1)], f"reduceScatter of {each} {dtype}")

    def exchange(self, dtype, each):
        """Everyone to everyone, oneself too."""
        mine, out = self.pair(each * self.n, dtype, each * self.n)
        self.nccl.groupStart()
        for peer in range(self.n):
            self.comm.send(self.memory.address(mine, each * peer), each, self.kind(dtype), peer, self.memory.queue)
            self.comm.recv(self.memory.address(out, each * peer), each, self.kind(dtype), peer, self.memory.queue)
        self.nccl.groupEnd()
        mine_of_each = [x[each * self.rank:each * (self.rank + 1)] for x in self.inputs(dtype, each * self.n)]
        self.expect(out, numpy.concatenate(mine_of_each), f"send and recv of {each} {dtype}")


COLLECTIVES = (Rank.all_reduce, Rank.reduce, Rank.broadcast, Rank.all_gather, Rank.reduce_scatter, Rank.exchange)


def split(nccl, memory, comm, rank, n):
    """The same ranks in the opposite order."""
    half = comm.commSplit(0, n - rank, nccl.NcclConfig(split_share=1))
    assert half.size() == n and half.rank_id() == n - 1 - rank, f"rank {half.rank_id()} of {half.size()} after commSplit"
    other = Rank(nccl, memory, half, n - 1 - rank, n)
    other.all_gather("float32", 77)
    other.look()
    half.destroy()


def distributed(cupy, rank, n, port):
    """cupyx.distributed with its own way to meet: a process of the first rank, which must not outlive it."""
    import cupyx.distributed
    try:
        comm = cupyx.distributed.init_process_group(n, rank, port=port)
        all_of_distributed(cupy, comm, rank, n)
        comm.stop()
    finally:
        for left in multiprocessing.active_children():
            left.kill()


def all_of_distributed(cupy, comm, rank, n):
    each = 4099
    for dtype in ("float32", "int64", "complex64"):
        xs = [values(dtype, r, each * n) for r in range(n)]
        mine, total = cupy.asarray(xs[rank]), functools.reduce(numpy.add, xs)
        rows = mine.reshape(n, each)

        def room(*shape):
            return cupy.asarray(numpy.zeros(shape, dtype))

        out = room(each * n)
        comm.all_reduce(mine, out)
        same(out.get(), total, f"all_reduce of {dtype}")
        comm.reduce(mine, out, root=0)
        assert rank != 0 or numpy.array_equal(out.get(), total), f"reduce of {dtype}"
        out = room(each)
        comm.reduce_scatter(mine, out, each)
        same(out.get(), total[each * rank:each * (rank + 1)], f"reduce_scatter of {dtype}")
        out = room(n, each * n)
        comm.all_gather(mine, out, each * n)
        same(out.get(), numpy.stack(xs), f"all_gather of {dtype}")
        out = room(n, each)
        comm.all_to_all(rows, out)
        same(out.get(), numpy.stack([x.reshape(n, each)[rank] for x in xs]), f"all_to_all of {dtype}")
        out = room(each)
        comm.scatter(rows, out, root=n - 1)
        same(out.get(), xs[n - 1].reshape(n, each)[rank], f"scatter of {dtype}")
        out = room(n, each * n)
        comm.gather(mine, out, root=0)
        assert rank != 0 or numpy.array_equal(out.get(), numpy.stack(xs)), f"gather of {dtype}"
        comm.broadcast(mine, root=0)
        same(mine.get(), xs[0], f"broadcast of {dtype}")
        if rank < 2:
            mine, out = cupy.asarray(xs[rank]), room(each * n)
            comm.send_recv(mine, out, 1 - rank)
            same(out.get(), xs[1 - rank], f"send_recv of {dtype}")
            if rank == 0:
                comm.send(mine, 1)
            else:
                comm.recv(out, 0)
                same(out.get(), xs[0], f"recv of {dtype}")


def one_rank(given, cupy, nccl):
    """A process with one rank. The first makes the id, and prints it for the others."""
    rank, n = int(given.rank), given.ranks
    if not given.host:
        cupy.cuda.Device(rank).use()
    if rank == 0:
        given.id = nccl.get_unique_id().hex()
        print(given.id, flush=True)
    comm = nccl.NcclCommunicator(n, bytes.fromhex(given.id), rank)
    assert comm.rank_id() == rank and comm.size() == n, f"rank {comm.rank_id()} of {comm.size()}"
    assert given.host or comm.device_id() == rank, f"device {comm.device_id()} of rank {rank}"
    memory = Memory(None if given.host else cupy)
    self = Rank(nccl, memory, comm, rank, n)
    for each, dtypes in SIZES:
        for dtype in dtypes:
            for collective in COLLECTIVES:
                before = preloaded.calls()
                collective(self, dtype, each)
                assert preloaded.calls() > before, f"{collective.__name__} was not served"
                self.look()
    comm.check_async_error()
    split(nccl, memory, comm, rank, n)
    comm.destroy()
    if not given.host:
        distributed(cupy, rank, n, given.port)


def all_ranks(given, cupy, nccl):
    """One thread with all GPUs: what would wait for another rank must be in a group."""
    n = given.ranks
    comms = nccl.NcclCommunicator.initAll(list(range(n)))
    ranks = []
    for rank, comm in enumerate(comms):
        if not given.host:
            cupy.cuda.Device(rank).use()
        ranks.append(Rank(nccl, Memory(None if given.host else cupy), comm, rank, n))
    for dtype, each in (("float32", 1), ("float32", 262147), ("int64", 4099), ("float16", 33)):
        for collective in COLLECTIVES:
            before = preloaded.calls()
            nccl.groupStart()
            for self in ranks:
                if not given.host:
                    cupy.cuda.Device(self.rank).use()
                collective(self, dtype, each)
            nccl.groupEnd()
            assert preloaded.calls() >= before + n, f"{collective.__name__} was not served for each rank"
            for self in ranks:
                self.look()
    for comm in comms:
        comm.destroy()


def child(given):
    preloaded.end_after(DEADLINE_S)
    cupy, nccl = load()
    preloaded.require(given.library)
    if given.rank == "all":
        all_ranks(given, cupy, nccl)
        who = f"one process with {given.ranks} ranks"
    else:
        one_rank(given, cupy, nccl)
        who = f"rank {given.rank} of {given.ranks}"
    preloaded.require(given.library)
    print(f"{who}: {preloaded.calls()} calls served by {preloaded.serving()}", flush=True)


def gpus():
    cupy, _ = load()
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        preloaded.skip(f"CuPy finds no CUDA device ({error})")
    if count < 2:
        preloaded.skip(f"two GPUs are needed, CuPy finds {count}")
    return count, cupy.__version__


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def wait(children):
    """All or none: who still runs when one has failed is ended, with what it has started."""
    try:
        while any(child.poll() is None for child in children) and not any(child.poll() for child in children):
            time.sleep(0.05)
        failed = [child for child in children if child.poll()]
    finally:
        for child in children:
            if child.poll() != 0:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
    for child in children:
        print(child.communicate()[0], end="")
    if failed:
        sys.exit(f"{' '.join(failed[0].args[3:5])} left with {failed[0].returncode}")


def main():
    given = options()
    if given.rank is not None:
        return child(given)
    if given.host:
        cupy, _ = load()
        n, version = given.host, cupy.__version__
    else:
        n, version = gpus()
    environment = preloaded.environment(given.library)
    if given.host:
        environment["MARROW_TARGET"] = "host"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a limit from outside ends all of them
    port = free_port()

    def start(rank, unique_id=""):
        command = [sys.executable, __file__, given.library, "--rank", str(rank), "--ranks", str(n), "--port", str(port), "--id", unique_id]
        command += ["--host", str(n)] if given.host else []
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)

    first = start(0)
    unique_id = first.stdout.readline().strip()
    wait([first] + [start(rank, unique_id) for rank in range(1, n) if unique_id])
    wait([start("all")])
    print(f"CuPy {version}: {n} ranks{' on the host target' if given.host else ''}, a process each and all in one, to the bit")


if __name__ == "__main__":
    main()
