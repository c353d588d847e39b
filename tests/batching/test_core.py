"""The compiled core and the Python one make the same plans."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import pytest
import torch

from plait.batching import _core_py
from plait.batching._schedule import components

native = pytest.importorskip("plait.batching._core", reason="the compiled core was not built")


class Meta:
    pass


def build(module: Any, seed: int) -> Any:
    rnd = random.Random(seed)
    lazy = type("L", (module.LazyBase,), {"__slots__": ()})
    core = module.Core(lazy, object(), lambda: True, lambda: False, components, int, (float,))
    spaces = 2
    kinds = []
    for _ in range(rnd.randint(1, 6)):
        gather = rnd.random() < 0.2
        ragged = rnd.random() < 0.3
        n_in = 1 if gather else rnd.randint(1, 3)
        ins = tuple(-1 if ragged and rnd.random() < 0.7 else rnd.randint(1, 2) for _ in range(n_in))
        outs = (
            (-1,)
            if gather
            else tuple(-1 if ragged and rnd.random() < 0.5 else rnd.randint(1, 2) for _ in range(rnd.randint(1, 2)))
        )
        number = core.sig(
            int(gather), int(ragged), () if gather else ins, outs, tuple(rnd.randrange(spaces) for _ in outs)
        )
        kinds.append((number, gather, ins, outs))
    values: list[tuple[int, int]] = []  # slot, rows
    for _ in range(4):
        slot = core.take(3)
        core.place(slot, core.room(0, 3), 3)
        values.append((slot, 3))
    results = []
    for _ in range(rnd.randint(1, 4)):
        for _ in range(rnd.randint(1, 30)):
            core.lane = rnd.randrange(5)
            number, gather, ins, outs = rnd.choice(kinds)
            if gather:
                parts = [rnd.choice(values) for _ in range(rnd.randint(1, 4))]
                total = sum(r for _, r in parts)
                slot = core.put(number, total, tuple(k for p in parts for k in p), total)
                values.append((slot, total))
                continue
            length = rnd.randint(1, 3)
            chosen = []
            for r in ins:
                need = length if r < 0 else r
                fit = [v for v in values if v[1] >= need]
                chosen.append(rnd.choice(fit)[0])
            rows = [length if r < 0 else r for r in outs]
            slot = core.put(number, length, tuple(chosen), sum(rows))
            for r in rows:
                values.append((slot, r))
                slot += r
        results.append(core.plan([rnd.choice(values)[0] for _ in range(rnd.randint(1, 5))]))
    return results, [core.row_of(s) for s in range(core.next)]


@pytest.mark.parametrize("seed", range(150))
def test_same_plans(seed: int) -> None:
    a, b = build(native, seed), build(_core_py, seed)
    assert a[1] == b[1]
    for (groups, index, sizes), (groups2, index2, sizes2) in zip(a[0], b[0]):
        assert bytes(index) == bytes(index2)
        assert sizes == sizes2
        assert groups == groups2


def test_python_core_runs_everything() -> None:
    """The same tests once more without the compiled core."""
    env = {**os.environ, "PLAIT_CORE": "python"}
    code = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "tests/batching/test_sharp_edges.py"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert code.returncode == 0, code.stdout[-3000:]


def test_joins_take_the_short_cut() -> None:
    """The compiled core knows `stack` and `cat` by the identity of their names."""
    from plait.batching._dispatch import FAST

    assert FAST[torch.stack] is sys.intern("stack") and FAST[torch.cat] is sys.intern("cat")
