"""plait.batch against the plain loop, the form batched by hand and DyNet, in one table.

    python benchmarks/batch.py                      # all workloads, H = 64 and 256
    python benchmarks/batch.py --only W2,W6 --hidden 64 --rounds 20
    python benchmarks/batch.py --no-loop            # leaves the slow plain loop out
    python benchmarks/batch.py --dynet PYTHON       # with the DyNet of another Python (`pip install dynet38 numpy` there)
    python benchmarks/batch.py --memory             # peak memory in place of times

Batch 64, forward and backward, one thread, process CPU time, best of the rounds; microseconds per unit (step, node,
token).  `W1r` and `W1Lr` are W1 and W1L with the loop inside nn.RNN / nn.LSTM.  W0 is a program that cannot batch: what
plait.batch costs where it gains nothing, as the mean of 16 calls, of which one tries and the others run as the loop
(each round is a function of its own).  The plain loop, plait.batch, the form by hand and DyNet run turn by turn, DyNet in
processes of its own, one with automatic batching and one without (which is faster where the program decides a lot); the
faster one counts.  Every row is first checked: loss and gradients of the three must agree, and DyNet's loss
with them.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _k in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_k, "1")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import by_hand  # noqa: E402
import torch  # noqa: E402
import workloads  # noqa: E402
from peak import peak  # noqa: E402
from torch import Tensor  # noqa: E402

import plait  # noqa: E402
from plait.batching._api import Past  # noqa: E402
from plait.batching._core_choice import NATIVE  # noqa: E402

NAN = float("nan")
IN_DYNET = ("W1", "W1L", "W2", "W3", "W3A", "W5", "W6")


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


def forms_of(w: workloads.Workload) -> dict[str, Callable[[], Tensor]]:
    """The whole loss in each way: `plait`, `loop` and, where there is one, `hand`."""
    batched = plait.batch(w.one)
    forms: dict[str, Callable[[], Tensor]] = {
        "plait": lambda: batched(*w.examples).sum(),
        "loop": lambda: sum(w.one(*e) for e in zip(*w.examples)),  # type: ignore[dict-item, return-value]
    }
    if w.name in by_hand.FORMS:
        forms["hand"] = by_hand.FORMS[w.name](w)
    return forms


def build(name: str, hidden: int) -> workloads.Workload:
    torch.manual_seed(0)
    return workloads.ALL[name](hidden)


def measure(w: workloads.Workload, rounds: int, with_loop: bool, dynets: list[Dynet]) -> tuple[dict[str, float], float]:
    """Microseconds per unit of each form, and the largest difference from the loop."""
    forms = forms_of(w)
    results = {form: gradients(w.model, f()) for form, f in forms.items()}
    loss, grads = results["loop"]
    error = max(max(worst(grads, g), abs(loss - a) / abs(loss)) for a, g in results.values())
    turns = Past.PAUSE + 1 if w.name == "W0" else 1  # calls from one try to batch to the next
    best = dict.fromkeys([*forms, "dynet"], float("inf"))
    for dynet in dynets:
        dynet.check(loss)
    for k in range(rounds):
        if turns > 1:
            forms = forms_of(w)
        for form, f in forms.items():
            if form != "loop" or (with_loop and k < 2):
                took = cpu(lambda f=f: [gradients(w.model, f()) for _ in range(turns)])  # type: ignore[misc]
                best[form] = min(best[form], took / turns)
        for dynet in dynets:
            best["dynet"] = min(best["dynet"], dynet.turn()["seconds"])
    return {form: t * 1e6 / w.units for form, t in best.items()}, error


def plain(x: Any) -> Any:
    """Tensors as numpy arrays or numbers, lists inside too."""
    if isinstance(x, Tensor):
        return x.item() if x.dim() == 0 else x.detach().numpy()
    return [plain(e) for e in x] if isinstance(x, list) else tuple(map(plain, x)) if isinstance(x, tuple) else x


class Dynet:
    """A process that runs a workload in DyNet once whenever it is asked."""

    def __init__(self, python: str, w: workloads.Workload, hidden: int, autobatch: int) -> None:
        task = {
            "name": w.name,
            "hidden": hidden,
            "state": {k: v.numpy() for k, v in w.model.state_dict().items()},
            "examples": [plain(c) for c in w.examples],
        }
        self.name = w.name
        self.process = subprocess.Popen(
            [python, str(HERE / "dynet_forms.py"), str(autobatch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.to, self.back = self.process.stdin, self.process.stdout
        pickle.dump(task, self.to)

    def turn(self) -> dict[str, float]:
        self.to.write(b"\n")
        self.to.flush()
        answer = self.back.readline()
        if not answer:
            raise SystemExit(f"the DyNet form of {self.name} failed")
        return json.loads(answer)  # type: ignore[no-any-return]

    def check(self, loss: float) -> None:
        """That it computes the same."""
        found = self.turn()["loss"]
        if abs(found - loss) > 1e-3 * abs(loss):
            raise SystemExit(f"{self.name}: the loss is {loss:.5f} in PyTorch and {found:.5f} in DyNet")

    def close(self) -> None:
        self.process.communicate()


def has_dynet(python: str) -> bool:
    try:
        return subprocess.run([python, "-c", "import dynet_config"], capture_output=True).returncode == 0
    except OSError:
        return False


def cell(x: float, digits: int) -> str:
    return "-" if x != x or x == float("inf") else f"{x:.{digits}f}"


def times(rows: list[tuple[str, int]], args: argparse.Namespace) -> None:
    with_dynet = has_dynet(args.dynet)
    if not with_dynet:
        print(f"No DyNet column: {args.dynet} has no DyNet (pip install dynet38; or --dynet ANOTHER_PYTHON).")
    print(
        "| workload | H | plain loop | DyNet | by hand | plait.batch | plait / by hand | plait / DyNet | loop / plait | error |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, hidden in rows:
        w = build(name, hidden)
        dynets = [Dynet(args.dynet, w, hidden, on) for on in (0, 1)] if with_dynet and name in IN_DYNET else []
        t, error = measure(w, args.rounds, not args.no_loop, dynets)
        for dynet in dynets:
            dynet.close()
        p, h, e, d = t["plait"], t.get("hand", NAN), t["loop"], t["dynet"] if dynets else NAN
        print(
            f"| {name} | {hidden} | {cell(e, 1)} | {cell(d, 2)} | {cell(h, 2)} | {p:.2f} | {cell(p / h, 2)} | "
            f"{cell(p / d, 2)} | {cell(e / p, 2)} | {error:.0e} |",
            flush=True,
        )


def memory(rows: list[tuple[str, int]]) -> None:
    print("Peak of one forward and backward over what the process held before, in MB, Python objects included;")
    print("each number is the median of five in a process of its own.")
    print("| workload | H | plain loop | by hand | plait.batch | plait / by hand |")
    print("|---|---|---|---|---|---|")
    for name, hidden in rows:
        mb: dict[str, float] = {}
        for form in ("loop", "hand", "plait"):
            if form == "hand" and name not in by_hand.FORMS:
                continue
            command = [sys.executable, __file__, "--only", name, "--hidden", str(hidden), "--peak-of", form]
            mb[form] = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        h = mb.get("hand", NAN)
        print(
            f"| {name} | {hidden} | {mb['loop']:.1f} | {cell(h, 1)} | {mb['plait']:.1f} | {cell(mb['plait'] / h, 2)} |",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(workloads.ALL))
    parser.add_argument("--hidden", default="64,256")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-loop", action="store_true")
    parser.add_argument("--dynet", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak-of", help=argparse.SUPPRESS)  # one number, for the table of --memory
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = [(name, hidden) for name in args.only.split(",") for hidden in map(int, args.hidden.split(","))]
    if args.peak_of:
        w = build(*rows[0])
        form = forms_of(w)[args.peak_of]
        print(peak(lambda: form().backward(), w.model.zero_grad) / 2**20)
        return 0
    print(f"torch {torch.__version__}, recording core: {'compiled' if NATIVE else 'Python'}")
    if args.memory:
        memory(rows)
    else:
        times(rows, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
