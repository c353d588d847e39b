"""A decision over a whole batch chooses for every example in it.

What it finds: an `if`, a `while` or an exit from a loop that is decided by a mean, sum, maximum or other reduction over
the rows of a batch, and then changes what happens to each row; and a state that is cut for all rows because some ask.

Why it matters: what happens to one example depends on which others share the batch, so a batch is not equal to its
rows one by one, and training and inference differ.

Example::

    if hidden.mean() > 0:
        hidden = hidden.relu()

Instead::

    hidden = torch.where(hidden.mean(1, keepdim=True) > 0, hidden.relu(), hidden)
    # or, with the model written for one example: plait.batch(model)(examples)

Limits: rows count as a batch where every operation up to the decision treats them alone. `any` and `all` over flags
that only end a loop, and decisions on the loss, are silent. How much it matters takes a second run: `plait.check`.

Sources: seal-rg/recurrent-pretraining#11; castorini/DeeBERT#8.
"""

from collections.abc import Iterator

from plait.graph import Decision, Node
from plait.rules._case import Case
from plait.rules._rows import FLAGS, full_reduction, row_family
from plait.rules._rule import Finding
from plait.rules._words import at, code, leaves_loop, name, op_name, says


def check(case: Case) -> Iterator[Finding | None]:
    """Every decision of the step, once a line."""
    seen: set[int] = set()
    reduces = _full_reductions(case) if case.graph.decisions else frozenset()
    if not reduces:
        return
    for decision in case.graph.decisions:
        if decision.site is None or decision.site in seen or decision.how not in ("bool", "item", "float", "int"):
            continue
        site = case.site(decision)
        if site is None or site.test is None or site.test.kind in ("assert", "filter"):
            continue
        for reduction in _reductions(case, decision, reduces):
            victim = _victim(case, decision, reduction)
            if victim is not None:
                seen.add(decision.site)
                yield _finding(case, decision, reduction, victim)
                break


def _full_reductions(case: Case) -> frozenset[int]:
    """The nodes that reduce over all rows: worked out once, as every decision looks at the nodes above it."""
    return frozenset(node.id for node in case.graph.nodes if full_reduction(case, node))


def _reductions(case: Case, decision: Decision, reduces: frozenset[int]) -> list[Node]:
    """The reductions over rows that decide, nearest first."""
    found: list[Node] = []
    nodes, sources = case.graph.nodes, case.sources
    stack, seen = [case.maker(decision.value).id], set[int]()
    while stack and len(seen) <= 40:
        number = stack.pop()
        if number in seen:
            continue
        seen.add(number)
        node = nodes[number]
        if node.kind != "op":
            continue
        if number in reduces:
            found.append(node)
            if op_name(node.op) not in FLAGS:
                continue
        stack += sorted(sources[number])
    return found


def _victim(case: Case, decision: Decision, reduction: Node) -> Node | None:
    """An operation that treats the rows in a way which the decision chose."""
    graph = case.graph
    reduced = graph.values[reduction.inputs[0].value]
    flags = op_name(reduction.op) in FLAGS
    family = row_family(case, reduced.id)
    if family is None or (not flags and not _of_rows(case, family) and not _spread(case, reduction)):
        return None
    site = case.site(decision)
    assert site is not None and site.test is not None
    rows = reduced.shape[0]
    chosen = (site.file, site.test.line, site.test.column)
    ends = site.test.kind == "while" or leaves_loop(site.test)
    for node in graph.nodes[decision.after :]:
        where = case.site(node)
        if node.kind != "op" or where is None or node.in_backward:
            continue
        in_arm = where.file == chosen[0] and any((b.line, b.column) == chosen[1:] for b in where.branches)
        in_loop = (
            ends and bool(site.loops) and where.file == site.file and any(loop in site.loops for loop in where.loops)
        )
        called = any(  # the arm calls a function or a module that does it
            region.kind == "frame" and region.site is not None and _in_arm(case, region.site, chosen)
            for region in case.regions_above(node.region)
        )
        if not (in_arm or in_loop or called):
            continue
        used = [edge.value for edge in node.inputs if flags or graph.values[edge.value].node in family]
        if not any(graph.values[each].shape[:1] == (rows,) for each in used):
            continue
        if not flags:
            return node
        if node.cut == "detach" and in_arm and reduction.inputs[0].value not in used:
            return node
    return None


def _in_arm(case: Case, number: int, chosen: tuple[str, int, int]) -> bool:
    site = case.graph._site_by_id.get(number)
    return site is not None and site.file == chosen[0] and any((b.line, b.column) == chosen[1:] for b in site.branches)


def _of_rows(case: Case, family: set[int]) -> bool:
    """Whether rows of the family have entries of their own."""
    return any(len(case.graph.values[out].shape) > 1 for each in family for out in case.graph.nodes[each].outputs)


def _spread(case: Case, reduction: Node) -> bool:
    """Whether what was reduced to one number is spread over all rows again."""
    return any(op_name(case.graph.nodes[each].op) in ("expand_as", "expand", "where", "broadcast_to", "repeat")
               for each in case.below(reduction.id))  # fmt: skip


def _finding(case: Case, decision: Decision, reduction: Node, victim: Node) -> Finding | None:
    graph, site = case.graph, case.site(decision)
    assert site is not None and site.test is not None
    rows = graph.values[reduction.inputs[0].value].shape[0]
    what = name(graph, reduction.inputs[0].value)
    if op_name(reduction.op) in FLAGS:
        fact = (
            f"the decision {code(site.test.expression)}{at(site)} holds if any of {rows} rows asks for it, and then"
            f" {says(graph, victim)}{at(case.site(victim))} cuts all of them."
        )
        cure = "Cut only the rows that ask: `torch.where(flags, h.detach(), h)`, or write the model for one example."
    else:
        fact = (
            f"the decision {code(site.test.expression)}{at(site)} mixes examples: `{op_name(reduction.op)}` reduces"
            f" {what} over {rows} rows, and one outcome goes for all of them."
        )
        cure = (
            "Decide for each row (`torch.where` with a condition of one entry a row), or write the model for"
            " one example"
            " and run it with `plait.batch`."
        )
    return case.finding(
        fact,
        "What happens to one example depends on which others share its batch; alone it may take the other way.",
        cure, [reduction, victim], ("decision", site), ("reduced", case.site(reduction)), ("chosen", case.site(victim)),
        rows=rows,
    )  # fmt: skip
