"""What a long recorded run costs in memory, in the file, and to look at.

Usage: python benchmarks/record_long.py [--steps 10000] [--random-steps 50000]

Prints a table: steps, distinct graphs and programs, size of the file, growth of the process over the bare run, and the
time of `plait show` on the file. The bare runs are made in processes of their own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

UNCHANGED = """
import torch, torch.nn.functional as F
torch.set_num_threads(1); torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(STEPS):
    optimizer.zero_grad()
    loss = F.mse_loss(model(torch.randn(16, 8)), torch.randn(16, 1))
    loss.backward()
    optimizer.step()
"""

RANDOM = """
import random, torch
torch.set_num_threads(1); torch.manual_seed(0); random.seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = torch.nn.RNNCell(4, 8), torch.nn.Linear(8, 1)
    def forward(self, sequence):
        hidden = sequence.new_zeros(1, 8)
        for row in sequence:
            hidden = self.cell(row[None], hidden)
            if hidden.mean() > 0:
                hidden = torch.relu(hidden)
            else:
                hidden = torch.tanh(hidden)
        return self.head(hidden)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(STEPS):
    optimizer.zero_grad()
    loss = net(torch.randn(random.randint(1, 50), 4)).square().mean()
    loss.backward()
    optimizer.step()
"""

MEASURE = """
import resource
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=open("peak", "w"))
"""


def run(program: str, steps: int, folder: str, recorded: bool) -> tuple[float, float]:
    """(seconds, peak memory in MB) of the program in a process of its own."""
    script = Path(folder) / "program.py"
    script.write_text(f"STEPS = {steps}\n" + program + MEASURE)
    command = [sys.executable, "program.py"]
    if recorded:
        command = [sys.executable, "-m", "plait", "run", "-q", "-f", "-o", "run.plait", "program.py"]
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True)
    return time.perf_counter() - start, int((Path(folder) / "peak").read_text()) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--random-steps", type=int, default=50_000)
    options = parser.parse_args()
    import plait

    columns = f"{'program':34} {'time':>7} {'graphs':>7} {'programs':>8} {'file MB':>8} {'memory':>9} {'show s':>7}"
    print(columns)
    with tempfile.TemporaryDirectory() as folder:
        for name, program, steps in (
            ("one unchanged graph", UNCHANGED, options.steps),
            ("dynamic RNN, random lengths 1-50", RANDOM, options.random_steps),
        ):
            if not steps:
                continue
            bare, bare_peak = run(program, steps, folder, recorded=False)
            recorded, peak = run(program, steps, folder, recorded=True)
            path = Path(folder) / "run.plait"
            start = time.perf_counter()
            subprocess.run([sys.executable, "-m", "plait", "show", str(path)], stdout=subprocess.DEVNULL, check=True)
            shown = time.perf_counter() - start
            with plait.load(path) as recording:
                variants = recording.variants
            programs = len({each.program for each in variants})
            size = os.path.getsize(path) / 1e6
            label = f"{name}, {steps:,}"
            print(
                f"{label:34} {recorded / bare:6.2f}x {len(variants):7,} {programs:8} {size:8.1f}"
                f" {peak - bare_peak:+6.0f} MB {shown:7.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
