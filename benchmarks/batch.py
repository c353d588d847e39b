"""plait.batch against the plain loop and the form batched by hand, in one process, turn by turn.

    python benchmarks/batch.py                      # all workloads, H = 64 and 256
    python benchmarks/batch.py --only W2,W6 --hidden 64 --rounds 20
    python benchmarks/batch.py --no-loop            # leaves the slow plain loop out

Batch 64, forward and backward, one thread, process CPU time, best of the rounds; microseconds per unit (step, node,
token).  `W1r` and `W1Lr` are W1 and W1L with the loop inside nn.RNN / nn.LSTM.  Every row is first checked: loss and
gradients of all three forms must agree.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _k in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_k, "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import by_hand  # noqa: E402
import torch  # noqa: E402
import workloads  # noqa: E402
from torch import Tensor  # noqa: E402

import plait  # noqa: E402
from plait.batching._core_choice import NATIVE  # noqa: E402


def gradients(model: torch.nn.Module, loss: Tensor) -> tuple[float, list[Tensor | None]]:
    model.zero_grad()
    loss.backward()
    return loss.item(), [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def worst(a: list[Tensor | None], b: list[Tensor | None]) -> float:
    top = max(float(g.abs().max()) for g in a if g is not None)
    return max(float((x - y).abs().max()) / top for x, y in zip(a, b) if x is not None and y is not None)


def cpu(f: Callable[[], Any]) -> float:
    start = time.process_time()
    f()
    return time.process_time() - start


def measure(name: str, hidden: int, rounds: int, with_loop: bool) -> tuple[float, float, float, float]:
    torch.manual_seed(0)
    w = workloads.ALL[name](hidden)
    batched, hand = plait.batch(w.one), by_hand.FORMS[name](w)

    def loss_loop() -> Tensor:
        return sum(w.one(*e) for e in zip(*w.examples))  # type: ignore[return-value]

    def loss_batch() -> Tensor:
        return batched(*w.examples).sum()  # type: ignore[no-any-return]

    a, b, c = (gradients(w.model, f()) for f in (loss_loop, loss_batch, hand))
    error = max(worst(a[1], b[1]), worst(a[1], c[1]), abs(a[0] - b[0]) / abs(a[0]), abs(a[0] - c[0]) / abs(a[0]))
    times: list[list[float]] = [[], [], []]
    for k in range(rounds):
        times[0].append(cpu(lambda: gradients(w.model, loss_batch())))
        times[1].append(cpu(lambda: gradients(w.model, hand())))
        if with_loop and k < 2:
            times[2].append(cpu(lambda: gradients(w.model, loss_loop())))
    p, h, e = (min(t) * 1e6 / w.units if t else float("nan") for t in times)
    return p, h, e, error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(workloads.ALL))
    parser.add_argument("--hidden", default="64,256")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-loop", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, recording core: {'compiled' if NATIVE else 'Python'}")
    print("| workload | H | plain loop | by hand | plait.batch | plait / by hand | loop / plait | error |")
    print("|---|---|---|---|---|---|---|---|")
    for name in args.only.split(","):
        for hidden in map(int, args.hidden.split(",")):
            p, h, e, error = measure(name, hidden, args.rounds, not args.no_loop)
            print(
                f"| {name} | {hidden} | {e:.1f} | {h:.2f} | {p:.2f} | {p / h:.2f} | {e / p:.1f} | {error:.0e} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
