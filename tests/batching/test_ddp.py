"""Two processes (gloo) give the gradients of one, also when a rank's examples never take an arm."""

from __future__ import annotations

import socket
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import plait


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.long, self.short = nn.GRUCell(4, 4), nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(4)
        for row in x:
            h = self.cell(row, h)
        return (self.long(h) if len(x) > 3 else self.short(h)).pow(2).sum()


def data() -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    return [
        torch.randn(n, 4, generator=g) for n in (1, 2, 3, 4, 5, 6)
    ]  # rank 0 never takes the long arm, rank 1 never the short


def work(rank: int, port: int, out: Any) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    model = DistributedDataParallel(plait.batch(Model(), all_parameters=True))
    for _ in range(2):
        model.zero_grad()
        model(data()[3 * rank : 3 * rank + 3]).mean().backward()
    if rank == 0:
        out.put([p.grad.tolist() for p in model.parameters()])
    dist.barrier()
    dist.destroy_process_group()


def test_two_processes_as_one() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    ctx = mp.get_context("spawn")
    out = ctx.SimpleQueue()
    workers = [ctx.Process(target=work, args=(r, port, out)) for r in range(2)]
    for w in workers:
        w.start()
    got = out.get()
    for w in workers:
        w.join(60)
        assert w.exitcode == 0
    model = Model()
    sum(model(x) for x in data()).div(6).backward()
    for g, p in zip(got, model.parameters()):
        torch.testing.assert_close(torch.tensor(g), p.grad)
