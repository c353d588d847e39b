"""Results of every step stay alive with their graphs.

What it finds: a place whose results, made in many steps, are all still alive at the end, each with a graph: they lie
in a
list, a dict or a log.

Why it matters: each of them keeps its graph, and what the graph saved if it was not walked. Memory grows with each
step.

Example::

    losses.append(loss)

Instead::

    losses.append(loss.item())

Limits: counted every time the number of steps doubles, from the eighth step on; the container itself is not named.

Sources: pytorch/pytorch#64586; horovod/horovod#641.
"""

from collections.abc import Iterator

from plait.rules._case import Run
from plait.rules._rule import Finding, Where
from plait.rules._words import at, code, size


def check_run(run: Run) -> Iterator[Finding]:
    """The counts of living results."""
    try:
        rows = run.recording._all("SELECT site, step, count, nbytes FROM living ORDER BY site, step")
    except Exception:  # a file from before they were counted
        return
    series: dict[int, list[tuple[int, int, int]]] = {}
    for site, step, count, nbytes in rows:
        series.setdefault(site, []).append((step, count, nbytes))
    for site, counts in series.items():
        (before, few, _), (after, many, nbytes) = counts[-2:] if len(counts) > 1 else ((0, 0, 0), counts[-1])
        if many < 6 or many - few < 0.4 * (after - before):
            continue
        where = run.recording.site(site)
        what = f"`{where.target}`" if where.target else code(where.expression)
        yield run.finding(
            f"{many:,} results of {code(where.expression)}{at(where)}, made in as many steps, are alive with"
            " their graphs"
            f" after step {after:,} (there were {few:,} after step {before:,}).",
            f"Whatever holds {what} holds the graph of each step too; the values alone are {size(nbytes)}.",
            "Keep the number (`.item()`) or the value without its graph (`.detach()`).",
            [Where.of("made", where)],
            steps=[after],
            alive=many,
            nbytes=nbytes,
        )
