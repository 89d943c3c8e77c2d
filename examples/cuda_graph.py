#!/usr/bin/env python3
"""A training step, gradients' all-reduce included, captured in a CUDA graph and replayed: torchrun --nproc-per-node 2
examples/cuda_graph.py [--expect-marrow]. Without GPUs, or with --eager, the same steps run one by one."""

import torch
import torch.distributed as dist

import common

WARM_UP = 3


def main():
    options = common.arguments(__doc__)
    options.add_argument("--eager", action="store_true", help="no graph")
    run = common.Run(options.parse_args())
    graphed = run.on_gpu and not run.options.eager
    model = common.Model(run.options).to(run.device, run.dtype)
    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=run.options.lr, capturable=run.on_gpu)
    batches = common.Batches(run, run.rank, run.world)
    inputs, targets = (part.clone() for part in batches())
    total = torch.zeros((), device=run.device)

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = common.loss_of(model, (inputs, targets))
        loss.backward()
        grads = [parameter.grad for parameter in model.parameters()]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        dist.all_reduce(flat, op=dist.ReduceOp.SUM)
        flat /= run.world
        for grad, part in zip(grads, flat.split([grad.numel() for grad in grads])):
            grad.copy_(part.view_as(grad))
        optimizer.step()
        total.copy_(loss.detach())

    def feed():
        for buffer, part in zip((inputs, targets), batches()):
            buffer.copy_(part)

    graph = None
    for number in range(run.options.steps):
        feed()
        if graphed and number == WARM_UP:
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                step()
        if graph:
            graph.replay()
        elif graphed: # on a side stream, as capture wants its warm-up
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                step()
            torch.cuda.current_stream().wait_stream(side)
        else:
            step()
        run.step(total)
    if graph: # goes before the communicator whose calls it holds
        torch.cuda.synchronize()
        graph.reset()
    run.finish("cuda_graph", least_calls=WARM_UP + 2 if graphed else None, graphed=graphed, parameters=sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main()
