"""How many known mistakes are named: runs the programs of a folder, explains each, and prints the score.

    python benchmarks/explain.py [FOLDER]
    python benchmarks/explain.py --cost

Each program is recorded as it stands (with gradients measured) in a process of its own. The table below says, in
our own words, what has to be said of each and at which line; a program counts if a rule of that kind names that
line. Programs that need a second run of the model (`plait.check`), a difference of two runs, or that test the
batcher are listed apart. With `--cost` only the time is measured that explaining a long run takes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import plait

ROOT = Path(__file__).resolve().parent.parent
# program: (what must be said, lines that are right)
EXPECTED: dict[str, tuple[str, tuple[int, ...]]] = {
    "P001": ("gradient-of-copy", (18,)),
    "P002": ("optimizer-of-copy", (14,)),
    "P004": ("term-without-gradient", (19, 23)),
    "P005": ("loss-without-graph", (15, 16)),
    "P007": ("term-without-gradient", (19,)),
    "P008": ("write-through-data", (16,)),
    "P010": ("write-through-data", (19,)),
    "P011": ("inference-tensor-in-graph", (17,)),
    "P013": ("grad-mode-leak", (15,)),
    "P014": ("gradient-of-unrelated-tensor", (15, 17)),
    "P016": ("detach-every-step", (19,)),
    "P017": ("parameter-without-gradient", (17,)),
    "P019": ("parameter-without-optimizer", (18, 21)),
    "P020": ("loss-without-graph", (17, 19)),
    "P021": ("backward-through-freed-graph", (19,)),
    "P023": ("graph-grows-across-steps", (23,)),
    "P025": ("backward-through-freed-graph", (16, 19)),
    "P026": ("accumulated-loss", (20,)),
    "P028": ("backward-through-freed-graph", (18, 21, 22)),
    "P029": ("stale-gradient", (19,)),
    "P031": ("inplace-on-saved-tensor", (15,)),
    "P032": ("optimizer-step-before-backward", (23,)),
    "P034": ("inplace-on-leaf", (17,)),
    "P035": ("write-into-view", (18,)),
    "P037": ("inplace-on-saved-tensor", (20,)),
    "P038": ("inplace-on-saved-tensor", (16,)),
    "P040": ("write-into-view", (16, 19)),
    "P041": ("nan-born-in-backward", (20,)),
    "P043": ("nan-born-in-backward", (20,)),
    "P044": ("nan-born-in-backward", (15,)),
    "P046": ("nan-born-in-backward", (14,)),
    "P047": ("nan-born-in-backward", (20,)),
    "P049": ("gradient-explodes", (15,)),
    "P050": ("clip-of-nonfinite", (17,)),
    "P053": ("parameter-without-gradient", (21,)),
    "P055": ("parameter-without-gradient", (20,)),
    "P056": ("parameter-without-gradient", (17,)),
    "P057": ("padding-reaches-output", (18,)),
    "P059": ("unsorted-lengths", (17,)),
    "P061": ("unpacked-to-local-length", (17,)),
    "P062": ("padding-reaches-output", (20,)),
    "P064": ("padding-reaches-output", (18,)),
    "P065": ("mean-of-means", (20,)),
    "P068": ("data-dependent-decision", (21,)),
    "P069": ("decision-mixes-examples", (16, 17)),
    "P070": ("decision-mixes-examples", (16,)),
    "P074": ("data-dependent-decision", (14,)),
    "P076": ("nan-born-in-backward", (14,)),
    "P077": ("write-into-view", (14,)),
    "P079": ("data-dependent-decision", (12,)),
    "P080": ("data-dependent-decision", (15,)),
    "P082": ("shape-dependent-loop", (16,)),
    "P083": ("data-dependent-decision", (18,)),
    "P085": ("compile-gave-up", (14,)),
    "P086": ("compiled-again", (15,)),
    "P088": ("data-dependent-decision", (19,)),
    "P089": ("impure-branch", (16, 19, 22)),
    "P091": ("batchable-calls", (16, 21)),
    "P092": ("batchable-calls", (18,)),
    "P094": ("indexing-in-loop", (22,)),
    "P104": ("jagged-operation-refused", (18, 20)),
    "P106": ("jagged-operation-refused", (17,)),
    "P107": ("jagged-operation-refused", (17, 18, 21)),
    "P109": ("checkpoint-took-another-path", (23,)),
    "P110": ("checkpoint-took-another-path", (17, 18)),
    "P112": ("output-on-ctx", (20,)),
    "P113": ("intermediate-saved", (16,)),
    "P115": ("gradient-shape", (18,)),
    "P116": ("partial-module-hook", (21,)),
    "P119": ("strided-gradient", (19,)),
}
# Not for a rule that looks at one recorded run, and where the answer is.
ELSEWHERE = {
    "P071": "plait.check: rows alone and together, float64",
    "P100": "a test of the batcher",
    "P101": "a test of the batcher",
    "P121": "plait view: loops folded, lines",
    "P122": "plait record takes any output",
    "P124": "plait show: what each line keeps",
}


def record(program: Path, folder: Path, values: str = "stats") -> Path:
    """The recording of a program."""
    file = folder / f"{program.stem}.plait"
    words = [sys.executable, "-m", "plait", "run", "-q", "-f", "--values", values, "-o", str(file), str(program)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    subprocess.run(words, capture_output=True, env=environment, timeout=300, check=False)
    return file


def score(program: Path, file: Path) -> tuple[str, bool, bool]:
    """(what was said, whether the cause is right, whether the line is too)."""
    rule, lines = EXPECTED[program.stem[:4]]
    found = [each for each in plait.explain(file) if each.rule == rule] if file.exists() else []
    named = [each for each in found if each.file is not None and Path(each.file).name == program.name]
    right = [each for each in named if each.line in lines]
    shown = (right or named or found)[:1]
    return f"{shown[0].rule}:{shown[0].line}" if shown else "-", bool(found), bool(right)


LONG = """
import torch

w = torch.ones(8, requires_grad=True)
for step in range(1000):
    y = w
    for _ in range(498):
        y = torch.tanh(y * 0.99)
    y.sum().backward()
    w.grad = None
"""


def cost() -> int:
    """Time the explanation of 1,000 steps x 1,000 nodes."""
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "long.py"
        program.write_text(LONG)
        file = record(program, Path(name), "loss")
        with plait.load(file) as recording:
            sizes = [variant.nodes for variant in recording.variants]
            steps = len(recording.steps)
        best = min(_timed(file) for _ in range(3))
    print(f"explain: {steps:,} steps of up to {max(sizes):,} nodes: {best:.2f} s (of three)")
    return 0


def _timed(file: Path) -> float:
    start = time.perf_counter()
    plait.explain(file)
    return time.perf_counter() - start


def main() -> int:
    """Print the table and the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT.parent / "shared" / "repros")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cost", action="store_true", help="time the explanation of a long run instead")
    options = parser.parse_args()
    if options.cost:
        return cost()
    programs = sorted(options.folder.glob("P*.py"))
    if not programs:
        print(f"{options.folder}: no programs there")
        return 2
    start = time.perf_counter()
    causes = rights = 0
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(options.jobs) as pool:
        mine = [program for program in programs if program.stem[:4] in EXPECTED]
        files = pool.map(lambda each: record(each, Path(name)), mine)
        for program, file in zip(mine, files):
            said, cause, right = score(program, file)
            causes, rights = causes + cause, rights + right
            print(f"{program.stem:<40} {said:<42} {'right' if right else 'cause only' if cause else 'no'}")
    for program in programs:
        if program.stem[:4] in ELSEWHERE:
            print(f"{program.stem:<40} {'(' + ELSEWHERE[program.stem[:4]] + ')':<42} -")
    print(f"\n{rights} of {len(programs)} named with cause and line, {causes} with the cause;", end=" ")
    print(f"{len(ELSEWHERE)} are not for a rule. {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
