"""How long the page of a large recording takes: written, opened, unfolded, searched, scrolled.

python benchmarks/view.py             100,000 nodes in one step; 10,000 steps with 40 variants; other viewers
python benchmarks/view.py --quick     a tenth of it

The recordings are written row by row, as the recorder would, so no torch is needed for plait's own numbers; the other
viewers (torchview with Graphviz, torchlens) run the same network in torch, each with a limit of time and only if it is
installed: pip install -e '.[bench]', and Graphviz.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from handmade import LOOP, Tape, loop_step  # noqa: E402
from plait.graph._rows import ParentRow  # noqa: E402

Line = tuple[str, str, str]
LIMIT = 60  # seconds for another viewer

SOURCE = """\
def forward(xs):
    h = zeros
    for x in xs:
        h = cell(x, h)
        if h.mean() > 0:
            h = torch.relu(h)
        else:
            h = torch.tanh(h)
    return head(h)
"""

NETWORK = """
import sys, time, torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.RNNCell(4, 4), nn.Linear(4, 1)
    def forward(self, xs):
        h = torch.zeros(1, 4)
        for x in xs:
            h = self.cell(x, h)
            h = torch.relu(h) if h.mean() > 0 else torch.tanh(h)
        return self.head(h)
net, xs, out = Net(), torch.randn(int(sys.argv[1]), 1, 4), sys.argv[2]
start = time.perf_counter()
"""
OTHERS = {
    "torchview + Graphviz": "import torchview\n" + NETWORK + "torchview.draw_graph("
    "net, input_data=xs, expand_nested=True)"
    ".visual_graph.render(out, format='svg')\nprint(time.perf_counter() - start)",
    "torchlens": "import torchlens\n" + NETWORK + "torchlens.trace(net, xs).draw("
    "vis_mode='unrolled', vis_outpath=out, vis_save_only=True, vis_fileformat='svg')\nprint(time.perf_counter() - start)",
}  # fmt: skip


def long_step(rounds: int) -> Tape:
    """One step of an RNN over `rounds` letters: five operations and a decision a round."""
    tape = Tape(SOURCE)
    made, scalar = tape.type(1, 4, grad=True, leaf=False), tape.type(grad=True, leaf=False)
    flag = tape.type(dtype="bool", leaf=False)
    weight = tape.input("parameter", tape.type(4, 4, grad=True), "cell.weight_hh")
    xs = tape.input("data", tape.type(rounds, 1, 4), "xs")
    tape.enter("forward", None, 1)
    h = tape.op("zeros", out=tape.type(1, 4), site=tape.site(2, "zeros"))
    for k in range(rounds):
        x = tape.op("unbind", xs, out=made, site=tape.site(3, "xs", opcode="FOR_ITER"), bases=(0,))
        h = tape.op(
            "rnn_tanh_cell", tape.to(x), tape.to(h), weight, out=made, site=tape.site(4, "cell(x, h)"),
            backward=(("AddmmBackward0", (ParentRow("leaf", *weight, 0),)),
                      ("TanhBackward0", (ParentRow("node", 0, 0, 0),))),
            saved=(("result", "output", 0, 16),),
        )  # fmt: skip
        mean = tape.op("mean", tape.to(h), out=scalar, site=tape.site(5, "h.mean()"))
        test = tape.op("__gt__", tape.to(mean), out=flag, site=tape.site(5, "h.mean() > 0"), cut="boolean result")
        up = k % 3 != 0
        tape.read(
            tape.to(test), tape.site(5, "h.mean() > 0", jump=True), "bool", up, ">", left=0.1 if up else -0.1, right=0.0
        )
        line = (6, "torch.relu(h)") if up else (8, "torch.tanh(h)")
        h = tape.op("relu" if up else "tanh", tape.to(h), out=made, site=tape.site(*line))
    loss = tape.op("linear", tape.to(h), out=scalar, site=tape.site(9, "head(h)"))
    tape.backward(tape.to(loss), tape.site(9, "head(h)"))
    tape.end_step(loss=1.0)
    return tape


def many_steps(steps: int, variants: int = 40) -> Tape:
    """Steps of a loop with 1 to `variants` rounds."""
    tape = Tape(LOOP)
    for variant in range(variants):
        loop_step(tape, [True] * (variant + 1))
    written = list(tape.steps)
    tape.steps = []
    for number in range(steps):
        _, *rest = written[(number * 7 + number // 50) % variants]
        rest[5] = 1 / (1 + number / 500)  # loss
        tape.steps.append((number, *rest))
    return tape


def write_page(recording: Path) -> tuple[float, float, Path]:
    """Seconds of `plait view`, as a person types it, those of the processor alone, and the page."""
    target = recording.with_suffix(".html")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "plait", "view", str(recording), "-f", "-o", str(target)], check=True, cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}, capture_output=True,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, target


def in_browser(page: Path, strips: bool) -> list[Line]:
    """What a person waits for, measured inside Chromium."""
    from web.browser import chromium, missing, wait

    if (reason := missing()) is not None:
        return [("in Chromium", "not measured", reason)]
    with chromium() as context:
        tab = context.new_page()
        start = time.perf_counter()
        tab.goto(page.as_uri() + ("#view=run" if strips else "#view=graph"))
        wait(tab, "document.body.dataset.ready && (location.hash.includes('run') || document.body.dataset.drawn)", 60)
        lines = [("opened", f"{time.perf_counter() - start:.2f} s", "under 2 s")]
        if strips:
            frames = tab.evaluate(SCROLL)
            lines.append(("strip scrolled", f"{frames:.0f} frames a second", "30 or more"))
        else:
            for name, script, wish in (
                ("one round unfolded", ROUND, "under 300 ms"),
                ("opened all", ALL, ""),
                ("search", SEARCH, "under 100 ms"),
            ):
                lines.append((name, f"{tab.evaluate(script):.0f} ms", wish))
        client = context.new_cdp_session(tab)
        client.send("HeapProfiler.collectGarbage")
        used = client.send("Runtime.getHeapUsage")["usedSize"] + client.send("Runtime.getHeapUsage").get(
            "backingStorageSize", 0
        )
        lines.append(("memory", f"{used / 1e6:.0f} MB", "under 500 MB"))
        return lines


# Each waits until the picture shows what was asked for, and for the frame after it.
ROUND = """async () => {
  const view = plaitPage.app.parts.get('graph'), frame = () => new Promise(requestAnimationFrame);
  const loop = view.shown.graph.folds.find(f => f.kind === 'loop' && f.trips && f.trips[1] > 1);
  const start = performance.now();
  view.setRound(loop.id, Math.floor(loop.trips[1] / 2));
  while (!document.querySelector('.box.loop .badge')?.textContent.startsWith('round')) await frame();
  await frame();
  return performance.now() - start;
}"""
ALL = """async () => {
  const view = plaitPage.app.parts.get('graph'), frame = () => new Promise(requestAnimationFrame);
  plaitPage.app.go({ open: [], rounds: new Map() });
  while (document.querySelector('.box.decision')) await frame();
  const start = performance.now();
  [...document.querySelectorAll('button')].find(b => b.textContent === 'open all').click();
  while (!document.querySelector('.box.decision')) await frame();
  return performance.now() - start;
}"""
SEARCH = """async () => {
  const input = document.querySelector('.search input'), frame = () => new Promise(requestAnimationFrame);
  const ask = async (text) => {
    input.value = text;
    input.dispatchEvent(new Event('input'));
    while (!document.querySelector('#search-results li')?.textContent.includes(text)) await frame();
  };
  await ask('zeros');
  const start = performance.now();
  await ask('tanh');
  return performance.now() - start;
}"""
SCROLL = """async () => {
  const canvas = document.querySelector('canvas.strips'), frame = () => new Promise(requestAnimationFrame);
  const wheel = (x, y) => canvas.dispatchEvent(new WheelEvent('wheel',
    { deltaX: x, deltaY: y, clientX: 400, cancelable: true }));
  for (let k = 0; k < 4; k++) { wheel(0, -300); await frame(); }
  const start = performance.now();
  for (let k = 0; k < 120; k++) { wheel(k < 60 ? 60 : -60, 0); await frame(); }
  return 120000 / (performance.now() - start);
}"""


def others(rounds: int, folder: Path) -> list[Line]:
    """The same network in other viewers: seconds from the forward pass to the picture."""
    lines = []
    for name, script in OTHERS.items():
        package = script.split()[1]
        if subprocess.run([sys.executable, "-c", f"import {package}"], capture_output=True).returncode:
            lines.append((f"{name}, {rounds} rounds", "not installed", "pip install -e '.[bench]'"))
            continue
        done = subprocess.Popen(
            [sys.executable, "-c", script, str(rounds), str(folder / package)], text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            out, errors = done.communicate(timeout=LIMIT)
            fault = (errors.strip().splitlines() or ["failed"])[-1][:70]
            took = fault if done.returncode else f"{float(out.split()[-1]):.1f} s"
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)  # with the `dot` that it waits for
            done.communicate()
            took = f"over {LIMIT} s"
        lines.append((f"{name}, {rounds} rounds", took, ""))
    return lines


def table(title: str, lines: list[Line]) -> None:
    """Print it."""
    print(f"\n{title}")
    for name, value, wish in lines:
        print(f"  {name:<34}{value:>24}   {wish}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    part = 10 if options.quick else 1
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, tape, strips in (
            (f"{100_000 // part:,} nodes in one step", long_step(20_000 // part), False),
            (f"{10_000 // part:,} steps with 40 variants", many_steps(10_000 // part), True),
        ):
            recording = tape.write(folder / ("steps.plait" if strips else "nodes.plait"))
            seconds, busy, page = write_page(recording)
            lines: list[Line] = [
                ("page written", f"{seconds:.1f} s", "under 5 s"), ("of it processor time", f"{busy:.1f} s", ""),
                ("its size", f"{page.stat().st_size / 1e6:.1f} MB", ""),
                *in_browser(page, strips),
            ]  # fmt: skip
            table(title, lines)
            results[title] = lines
        for rounds in (20, 200):
            lines = others(rounds, folder)
            recording = long_step(rounds).write(folder / f"same{rounds}.plait")
            lines.append((f"plait view, {rounds} rounds", f"{write_page(recording)[0]:.1f} s", ""))
            table(f"The same network in other viewers, {rounds} rounds", lines)
            results[f"others {rounds}"] = lines
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
