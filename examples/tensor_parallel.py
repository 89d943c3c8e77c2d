#!/usr/bin/env python3
"""Tensor-parallel training, heads and hidden units over the ranks: torchrun --nproc-per-node 2 examples/tensor_parallel.py
[--expect-marrow]. All ranks see the same batches; the losses are those of one rank."""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import common


def main():
    run = common.Run(common.arguments(__doc__).parse_args())
    assert run.options.heads % run.world == 0, "--heads must be a multiple of the ranks"
    mesh = init_device_mesh(run.device.type, (run.world,))
    model = common.Model(run.options).to(run.device, run.dtype)
    for block in model.blocks:
        parallelize_module(block, mesh, {
            "attention.query": ColwiseParallel(), "attention.key": ColwiseParallel(), "attention.value": ColwiseParallel(),
            "attention.out": RowwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel(),
        })
    optimizer = torch.optim.AdamW(model.parameters(), lr=run.options.lr, foreach=False)
    batches = common.Batches(run, 0, 1)
    for _ in range(run.options.steps):
        loss = common.loss_of(model, batches())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        run.step(loss)
    run.finish("tensor_parallel", parameters=sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main()
