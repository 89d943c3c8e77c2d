#!/usr/bin/env python3
"""libnccl.so.2 as inference servers use it: by ctypes, functions looked up by name, the id passed by value, a process a rank.
Argument: the library. Two processes on the host target; the second is this file again."""
import ctypes
import os
import subprocess
import sys

COUNT = 5000
FLOAT, INT64 = 7, 4  # ncclFloat32, ncclInt64
SUM, MAX = 0, 2


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


COMM, STREAM, BUFFER, SIZE, INT = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
FUNCTIONS = {
    "ncclGetVersion": [ctypes.POINTER(INT)],
    "ncclGetUniqueId": [ctypes.POINTER(UniqueId)],
    "ncclCommInitRank": [ctypes.POINTER(COMM), INT, UniqueId, INT],
    "ncclAllReduce": [BUFFER, BUFFER, SIZE, INT, INT, COMM, STREAM],
    "ncclReduce": [BUFFER, BUFFER, SIZE, INT, INT, INT, COMM, STREAM],
    "ncclAllGather": [BUFFER, BUFFER, SIZE, INT, COMM, STREAM],
    "ncclReduceScatter": [BUFFER, BUFFER, SIZE, INT, INT, COMM, STREAM],
    "ncclBroadcast": [BUFFER, BUFFER, SIZE, INT, INT, COMM, STREAM],
    "ncclSend": [BUFFER, SIZE, INT, INT, COMM, STREAM],
    "ncclRecv": [BUFFER, SIZE, INT, INT, COMM, STREAM],
    "ncclCommGetAsyncError": [COMM, ctypes.POINTER(INT)],
    "ncclCommDestroy": [COMM],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
}


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.ncclGetErrorString.restype = ctypes.c_char_p
        self.lib.ncclGetErrorString.argtypes = [INT]
        self.lib.ncclGetLastError.restype = ctypes.c_char_p
        self.lib.ncclGetLastError.argtypes = [COMM]
        for name, arguments in FUNCTIONS.items():
            function = getattr(self.lib, name)
            function.restype, function.argtypes = INT, arguments

    def __getattr__(self, name):
        def call(*arguments):
            result = getattr(self.lib, name)(*arguments)
            if result != 0:
                raise RuntimeError(f"{self.lib.ncclGetErrorString(result).decode()}: {self.lib.ncclGetLastError(None).decode()}")
        return call


def array(values, kind=ctypes.c_float):
    values = list(values)
    return (kind * len(values))(*values)


def rank_main(nccl, unique_id, rank):
    comm = COMM()
    nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique_id, rank)
    other = 1 - rank
    mine = array(i % 100 + 1000 * rank for i in range(COUNT))
    sums = [2 * (i % 100) + 1000 for i in range(COUNT)]
    out = array([0] * COUNT)
    nccl.ncclAllReduce(mine, out, COUNT, FLOAT, SUM, comm, None)
    assert list(out) == sums
    both = array([0] * 2 * COUNT)
    nccl.ncclAllGather(mine, both, COUNT, FLOAT, comm, None)
    assert list(both) == [i % 100 for i in range(COUNT)] + [i % 100 + 1000 for i in range(COUNT)]
    half = array([0] * (COUNT // 2))
    nccl.ncclReduceScatter(mine, half, COUNT // 2, FLOAT, SUM, comm, None)
    assert list(half) == sums[COUNT // 2 * rank:COUNT // 2 * (rank + 1)]
    nccl.ncclReduce(mine, out, COUNT, FLOAT, MAX, 1, comm, None)
    assert rank == 0 or list(out) == [i % 100 + 1000 for i in range(COUNT)]
    word = array([rank + 7], ctypes.c_int64)
    nccl.ncclBroadcast(word, word, 1, INT64, 1, comm, None)
    assert word[0] == 8
    nccl.ncclGroupStart()
    nccl.ncclSend(mine, COUNT, FLOAT, other, comm, None)
    nccl.ncclRecv(out, COUNT, FLOAT, other, comm, None)
    nccl.ncclGroupEnd()
    assert list(out) == [i % 100 + 1000 * other for i in range(COUNT)]
    state = INT(-1)
    nccl.ncclCommGetAsyncError(comm, ctypes.byref(state))
    assert state.value == 0
    try: # what is wrong is said in words
        nccl.ncclAllReduce(None, out, COUNT, FLOAT, SUM, comm, None)
        raise AssertionError("NULL was taken")
    except RuntimeError as error:
        assert "argument is invalid" in str(error) and "NULL as send buffer" in str(error), error
    nccl.ncclCommDestroy(comm)


def main():
    nccl = Library(sys.argv[1])
    if len(sys.argv) == 3:
        unique_id = UniqueId.from_buffer_copy(bytes.fromhex(sys.argv[2]))
        return rank_main(nccl, unique_id, 1)
    version = INT()
    nccl.ncclGetVersion(ctypes.byref(version))
    assert version.value == 22809, version.value
    unique_id = UniqueId()
    nccl.ncclGetUniqueId(ctypes.byref(unique_id))
    second = subprocess.Popen([sys.executable, __file__, sys.argv[1], bytes(unique_id).hex()])
    try:
        rank_main(nccl, unique_id, 0)
        assert second.wait(60) == 0
    finally:
        second.kill()


if __name__ == "__main__":
    os.environ["MARROW_TARGET"] = "host"
    main()
