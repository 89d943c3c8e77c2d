"""What the examples share: a small language model on bytes, text that every Python has with it, start and report.

Started by torchrun; the backend is nccl on GPUs, whichever libnccl.so.2 that is, and gloo without. Losses depend on the arguments, the
number of ranks and the text alone.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import sysconfig
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def arguments(description):
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--steps", type=int, default=60)
    options.add_argument("--batch", type=int, default=8, help="sequences a rank and step")
    options.add_argument("--context", type=int, default=128)
    options.add_argument("--layers", type=int, default=4)
    options.add_argument("--dim", type=int, default=128)
    options.add_argument("--heads", type=int, default=4)
    options.add_argument("--lr", type=float, default=1e-3)
    options.add_argument("--seed", type=int, default=7)
    options.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="of the model")
    options.add_argument("--json", help="file for the report (rank 0), else standard output")
    options.add_argument("--expect-marrow", action="store_true", help="fail unless Marrow's libnccl.so.2 does the communication")
    return options


def mapped_nccl():
    """Files named libnccl.so* in this process."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {"/" + line.rstrip("\n").partition("/")[2] for line in maps if "/" in line}
    return sorted(path for path in paths if os.path.basename(path).startswith("libnccl.so"))


def marrow_calls():
    """How many operations Marrow's library has served here; None if another one, or none, is loaded."""
    for path in mapped_nccl():
        function = getattr(ctypes.CDLL(path), "marrow_nccl_calls", None)
        if function is not None:
            function.restype = ctypes.c_uint64
            return function()
    return None


class Where(ctypes.Structure):
    """Dl_info of dladdr()."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def serving_nccl():
    """The file that NCCL's names lead to in this process. torch may map the library of its wheel beside it, which is then not called."""
    everybody, where = ctypes.CDLL(None), Where()
    function = getattr(everybody, "ncclAllReduce", None)
    if function is None or not everybody.dladdr(ctypes.cast(function, ctypes.c_void_p), ctypes.byref(where)):
        return None # no one preloaded it: torch's own
    return where.file.decode()


class Run:
    """A started program: device, ranks, what was measured."""

    def __init__(self, options):
        self.options = options
        self.on_gpu = torch.cuda.is_available()
        local = int(os.environ.get("LOCAL_RANK", "0"))
        self.device = torch.device("cuda", local) if self.on_gpu else torch.device("cpu")
        if self.on_gpu:
            torch.cuda.set_device(self.device)
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        else:
            torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True, warn_only=True)
        self.dtype = getattr(torch, options.dtype)
        self.backend = "nccl" if self.on_gpu else "gloo"
        self.cost = self.start()
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.calls_before = marrow_calls() or 0
        self.losses, self.times, self.began, self.cpu_began = [], [], None, 0
        torch.manual_seed(options.seed)

    def start(self):
        """Starts torch.distributed; returns what that and a first call cost this rank. Threads are torch's and the library's."""
        word = torch.zeros(1, device=self.device)
        threads, free, began = len(os.listdir("/proc/self/task")), self.free_bytes(), time.perf_counter()
        dist.init_process_group(self.backend, device_id=self.device if self.on_gpu else None)
        dist.all_reduce(word)
        free -= self.free_bytes()
        return {"init_ms": round(1000 * (time.perf_counter() - began), 1), "device_mib": round(free / 2**20, 1),
                "threads": len(os.listdir("/proc/self/task")) - threads}

    def free_bytes(self):
        """Of the device, once all is done there."""
        if not self.on_gpu:
            return 0
        torch.cuda.synchronize()
        return torch.cuda.mem_get_info()[0]

    def step(self, loss):
        """Notes one step's loss (a tensor); the mean over the ranks is made at the end."""
        self.losses.append(loss.detach().float().clone().reshape(()))
        if self.on_gpu:
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self.began is not None:
            self.times.append(now - self.began)
        else:
            self.cpu_began = time.process_time()
        self.began = now

    def finish(self, program, least_calls=None, **more):
        """Checks and reports. least_calls: how many calls must have been served at least; a call a step if not given."""
        cpu = time.process_time() - self.cpu_began
        means = torch.stack(self.losses)
        dist.all_reduce(means)
        losses = (means / self.world).tolist()
        calls = marrow_calls()
        if self.options.expect_marrow:
            file = serving_nccl()
            assert file is not None, f"rank {self.rank}: libnccl was not preloaded; mapped: {mapped_nccl()}"
            assert calls is not None and "site-packages/nvidia" not in file, f"rank {self.rank}: {file} is not Marrow's"
            served = calls - self.calls_before
            assert served >= (least_calls or len(losses)), f"rank {self.rank}: {served} calls served in {len(losses)} steps"
        quarter = max(1, len(losses) // 4)
        assert all(loss == loss for loss in losses), "a loss is no number"
        if len(losses) >= 40:
            first, last = sum(losses[:quarter]) / quarter, sum(losses[-quarter:]) / quarter
            assert last < 0.95 * first, f"nothing was learned: {first} at first, {last} at last"
        if self.rank == 0:
            report = {
                "program": program, "ranks": self.world, "backend": self.backend, "libnccl": serving_nccl() or mapped_nccl(), "marrow_calls": calls,
                "step_ms": round(1000 * statistics.median(self.times), 3) if self.times else None,
                "cpu_ms": round(1000 * cpu / len(self.times), 3) if self.times else None, **self.cost, "losses": losses, **more,
            }
            text = json.dumps(report)
            if self.options.json:
                pathlib.Path(self.options.json).write_text(text + "\n")
            else:
                print(text, flush=True)
        dist.barrier()
        dist.destroy_process_group()


def text():
    """Python's own library, as bytes: the same text on all ranks of one installation."""
    sources = sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    data = b"".join(source.read_bytes() for source in sources)[: 4 << 20]
    assert len(data) > 1 << 16, "no sources of Python's library to learn from"
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


class Batches:
    """Random pieces of the text. share: which of how many; ranks that train one model together take the same."""

    def __init__(self, run, share, shares):
        self.data, self.run = text(), run
        self.random = torch.Generator().manual_seed(run.options.seed * 1000 + share)
        assert 0 <= share < shares

    def __call__(self):
        options = self.run.options
        starts = torch.randint(0, len(self.data) - options.context - 1, (options.batch,), generator=self.random)
        pieces = torch.stack([self.data[s : s + options.context + 1] for s in starts.tolist()]).long().to(self.run.device)
        return pieces[:, :-1], pieces[:, 1:]


class Attention(nn.Module):
    """Projections apart, so that they can be split over ranks by heads."""

    def __init__(self, dim, heads):
        super().__init__()
        self.head_dim = dim // heads
        self.query, self.key, self.value = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part(x).view(batch, length, -1, self.head_dim).transpose(1, 2) for part in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, heads)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """A causal transformer on bytes."""

    def __init__(self, options):
        super().__init__()
        self.bytes = nn.Embedding(256, options.dim)
        self.positions = nn.Parameter(0.02 * torch.randn(options.context, options.dim))
        self.blocks = nn.ModuleList(Block(options.dim, options.heads) for _ in range(options.layers))
        self.norm = nn.LayerNorm(options.dim)
        self.head = nn.Linear(options.dim, 256, bias=False)

    def forward(self, x):
        x = self.bytes(x) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(model, batch):
    inputs, targets = batch
    return F.cross_entropy(model(inputs).float().view(-1, 256), targets.reshape(-1))
