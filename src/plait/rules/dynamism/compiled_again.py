"""A function is compiled again and again.

What it finds: functions under `torch.compile` that were compiled four times or more in one run, with the loop in them
whose number of rounds depends on a size, and whether the compiler has reached its limit.

Why it matters: each compilation takes seconds to minutes; after the limit (8 by default) the function runs as it stands
for every size that is new.

Example::

    @torch.compile
    def f(x):
        h = x[0]
        for t in range(1, x.shape[0]):       # unrolled: one compilation for each length
            h = torch.tanh(h + x[t])
        return h

Instead::

    compile the body of the loop, pad lengths to a few sizes, or use a fused operation (`nn.RNN`, `cumsum`)

Limits: of the last 64 compilations; a loop is found by its header.

Sources: pytorch/pytorch#115626, #111441, #97155.
"""

from collections.abc import Iterator

from plait.rules._case import Run
from plait.rules._compiled import compiled, sized_loop
from plait.rules._rule import Finding, Where
from plait.rules._words import code, path_of

OFTEN = 4


def check_run(run: Run) -> Iterator[Finding]:
    """Function by function."""
    for each in compiled(run):
        if each.compiled < OFTEN:
            continue
        loop = sized_loop(run, each)
        because = (
            f": {code(loop[1])} at line {loop[0]} has another number of rounds each time and is unrolled"
            if loop is not None
            else ""
        )
        yield run.finding(
            f"`{each.function}` at {path_of(each.file)}:{each.line} was compiled {each.compiled} times{because}.",
            "The limit is reached: what comes with another size runs as it stands from now on."
            if each.limit
            else "Each compilation takes seconds or minutes, and there is a limit after which it runs as it stands.",
            "Compile the body of the loop instead, bring sizes to a few lengths, or say which sizes vary"
            " (`dynamic=True`, `torch._dynamo.mark_dynamic`).",
            [None if loop is None else Where("loop", each.file, loop[0], loop[1]),
             Where("function", each.file, each.line)],
            compiled=each.compiled,
            reason=each.reason,
        )  # fmt: skip
