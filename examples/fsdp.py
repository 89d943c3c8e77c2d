#!/usr/bin/env python3
"""Fully sharded training (FSDP2, fully_shard): torchrun --nproc-per-node 2 examples/fsdp.py [--expect-marrow]"""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import common


def main():
    options = common.arguments(__doc__)
    options.add_argument("--reduce-dtype", default="float32", choices=["float32", "bfloat16"], help="of the gradients on their way")
    run = common.Run(options.parse_args())
    mesh = init_device_mesh(run.device.type, (run.world,))
    policy = MixedPrecisionPolicy(param_dtype=run.dtype, reduce_dtype=getattr(torch, run.options.reduce_dtype))
    model = common.Model(run.options).to(run.device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=run.options.lr)
    batches = common.Batches(run, run.rank, run.world)
    for _ in range(run.options.steps):
        loss = common.loss_of(model, batches())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        run.step(loss)
    run.finish("fsdp", parameters=sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main()
