"""The ranks of one job take different ways.

What it finds: given the recordings of all ranks, the first decision, loop or operation at which one of them differs,
what each did there, and the parameters that a rank then gives no gradient to; or that one stopped before the others.

Why it matters: the others wait for gradients that never come. DistributedDataParallel fails, or hangs without a word.

Example::

    if x.sum() > 0:                  # each rank has its own x
        y = self.one(x)
    else:
        y = self.two(x)

Instead::

    total = x.sum()
    dist.all_reduce(total)           # one decision for all ranks

Limits: needs all files in one call: `plait explain run.rank*.plait`. One recording alone never gives it.

Sources: pytorch/pytorch#126616; THUDM/slime#1010.
"""

from collections.abc import Iterator

from plait.rules._case import Run
from plait.rules._rule import Finding, Parting
from plait.rules._words import listed, plural


def check_run(run: Run) -> Iterator[Finding]:
    """Where this rank and the others part."""
    parting = run.parting
    if parting is None:
        return
    if parting.step is not None:
        yield _part(run, parting, parting.step)
    elif len({steps for _, steps, _, _ in parting.ends}) > 1:
        yield _stopped(run, parting)


def _part(run: Run, parting: Parting, step: int) -> Finding:
    what = {"decision": f"the decision `{parting.label}` differs", "trips": f"the rounds of `{parting.label}` differ"}
    missing = [f"{rank} gives no gradient to {listed([f'`{name}`' for name in names], 4)}"
               for rank, names in parting.missing]  # fmt: skip
    waits = f"{'; '.join(missing)}: the other ranks wait for it." if missing else "What they exchange no longer fits."
    return run.finding(
        f"the ranks part in step {step}: {what.get(parting.kind or '', 'other operations run')}"
        f" ({'; '.join(parting.ranks)}).",
        waits,
        "Decide together (reduce the value over the ranks first), or use every parameter in each step.",
        [parting.place, *(place for _, _, _, place in parting.ends)], steps=[step],
    )  # fmt: skip


def _stopped(run: Run, parting: Parting) -> Finding:
    ends = "; ".join(f"{rank}: {plural(steps, 'step')}, {status}" for rank, steps, status, _ in parting.ends)
    fewest = min(parting.ends, key=lambda end: end[1])
    return run.finding(
        f"the ranks did the same as far as they came, and not equally far ({ends}).",
        "A rank that stops leaves the others waiting at their next exchange.",
        f"Look at what {fewest[0]} did last.",
        [place for _, _, _, place in sorted(parting.ends, key=lambda end: end[1])], steps=[fewest[1]],
    )  # fmt: skip
