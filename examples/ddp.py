#!/usr/bin/env python3
"""Data-parallel training (DistributedDataParallel): torchrun --nproc-per-node 2 examples/ddp.py [--expect-marrow]"""

import torch
from torch.nn.parallel import DistributedDataParallel

import common


def main():
    options = common.arguments(__doc__)
    options.add_argument("--bucket-mb", type=float, default=1, help="size of a gradient bucket")
    run = common.Run(options.parse_args())
    model = common.Model(run.options).to(run.device, run.dtype)
    model = DistributedDataParallel(model, device_ids=[run.device.index] if run.on_gpu else None, bucket_cap_mb=run.options.bucket_mb)
    optimizer = torch.optim.AdamW(model.parameters(), lr=run.options.lr)
    batches = common.Batches(run, run.rank, run.world)
    for _ in range(run.options.steps):
        loss = common.loss_of(model, batches())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        run.step(loss)
    run.finish("ddp", parameters=sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main()
