"""What recording costs: ratios of a recorded to a bare run, in one process, medians, one thread.

Usage: python benchmarks/record.py [--quick] [--rivals] [NAME ...]
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import plait

torch.set_num_threads(1)
Program = Callable[[], object]


class DecidingRNN(nn.Module):
    """A cell loop that asks its state for a value in every step."""

    def __init__(self, hidden: int, length: int) -> None:
        super().__init__()
        self.cell = nn.RNNCell(5, hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, 2)
        self.length = length

    def forward(self, sequence: Tensor) -> Tensor:
        state = sequence.new_zeros(sequence.shape[1], self.cell.hidden_size)
        for t in range(self.length):
            state = self.cell(sequence[t], state)
            if state.sum() > 0:
                state = torch.tanh(self.mix(state))
            else:
                state = state * 0.9
        return self.head(state)


def rnn(hidden: int, length: int = 200) -> Program:
    torch.manual_seed(0)
    model, sequence = DecidingRNN(hidden, length), torch.randn(length, 4, 5)

    def run() -> None:
        model.zero_grad()
        model(sequence).square().mean().backward()

    return run


def mlp() -> Program:
    """300 steps of training with Adam."""

    def run() -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        inputs = torch.randn(1024, 32)
        targets = inputs[:, :1].sin() + inputs[:, 1:2] * inputs[:, 2:3]
        best = float("inf")
        for _ in range(300):
            rows = torch.randint(0, 1024, (64,))
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs[rows]), targets[rows])
            loss.backward()
            optimizer.step()
            best = min(best, loss.item())

    return run


class Block(nn.Module):
    """A Transformer block as GPT-2 has it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.project(self.norm1(x)).split(width, 2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """GPT-2 small's shape: 12 layers of 768, 50257 words, tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.blocks = nn.ModuleList(Block(768, 12) for _ in range(12))
        self.norm = nn.LayerNorm(768)
        self.head = nn.Linear(768, 50257, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt() -> Program:
    torch.manual_seed(0)
    model, ids = GPT(), torch.randint(0, 50257, (1, 128))

    def run() -> None:
        model.zero_grad()
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()

    return run


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.conv1, self.norm1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        self.short: nn.Module | None = None
        if stride != 1 or inputs != out:
            self.short = nn.Sequential(nn.Conv2d(inputs, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        kept = x if self.short is None else self.short(x)
        x = F.relu(self.norm1(self.conv1(x)), inplace=True)
        x = F.relu(self.norm2(self.conv2(x)), inplace=True)
        x = self.norm3(self.conv3(x))
        x += kept
        return F.relu(x, inplace=True)


class ResNet(nn.Module):
    """ResNet-50's shape."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        blocks: list[nn.Module] = []
        inputs = 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for index in range(count):
                blocks.append(Bottleneck(inputs, width, stride if index == 0 else 1))
                inputs = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(2048, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.stem(x)), inplace=True), 3, 2, 1)
        return self.head(F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1))


def resnet() -> Program:
    torch.manual_seed(0)
    model, image = ResNet(), torch.randn(1, 3, 224, 224)

    def run() -> None:
        model.zero_grad()
        model(image).square().mean().backward()

    return run


PROGRAMS: dict[str, tuple[Callable[[], Program], int, float, float]] = {
    "RNN with decisions, H=5, T=200": (lambda: rnn(5), 40, 2.0, 1.6),
    "RNN with decisions, H=256, T=200": (lambda: rnn(256), 20, 1.5, 1.3),
    "MLP, 300 steps with Adam": (mlp, 7, 2.0, 1.5),
    "GPT-2 small's shape, 128 words": (gpt, 4, 1.05, 1.05),
    "ResNet-50's shape, 224x224": (resnet, 6, 1.05, 1.05),
}


def measure(program: Program, record: Callable[[], plait.Recording], rounds: int) -> tuple[float, float]:
    """(median seconds bare, median of the ratios of neighbours)."""
    program()
    bare, ratios = [], []
    for _ in range(rounds):
        start = time.process_time()
        program()
        middle = time.process_time()
        with record():
            again = time.process_time()
            program()
            end = time.process_time()
        bare.append(middle - start)
        ratios.append((end - again) / (middle - start))
    return statistics.median(bare), statistics.median(ratios)


def steady(program: Program, rounds: int, folder: Path, values: str) -> tuple[float, float]:
    """As `measure`, with one recording over all rounds: what a long run costs."""
    program()
    path = folder / "run.plait"
    bare, ratios = [], []
    recorder = plait.record(path, overwrite=True, values=values)  # type: ignore[arg-type]
    with recorder:
        program()
    gc.collect()
    for _ in range(rounds):
        start = time.process_time()
        program()
        middle = time.process_time()
        with recorder:
            again = time.process_time()
            program()
            end = time.process_time()
        bare.append(middle - start)
        ratios.append((end - again) / (middle - start))
    recorder.close()
    return statistics.median(bare), statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rounds")
    parser.add_argument("--values", default="loss", choices=["loss", "stats"])
    parser.add_argument("names", nargs="*", help="only programs whose name contains one of these")
    options = parser.parse_args()
    print(f"{'program':36} {'bare ms':>9} {'recorded':>9} {'first run':>10} {'must':>6} {'aim':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, rounds, must, aim) in PROGRAMS.items():
            if options.names and not any(each.lower() in name.lower() for each in options.names):
                continue
            if options.quick:
                rounds = max(2, rounds // 4)
            program = make()
            bare, ratio = steady(program, rounds, Path(folder), options.values)
            _, cold = measure(program, plait.record, max(2, rounds // 3))
            print(f"{name:36} {bare * 1e3:9.1f} {ratio:8.2f}x {cold:9.2f}x {must:5.2f}x {aim:5.2f}x", flush=True)
            del program
            gc.collect()


if __name__ == "__main__":
    main()
