"""A graph as a tree of text: functions and loops once, `x T`; small graphs with the numbers of the backward walk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plait.graph._fold import fold
from plait.graph._marks import Fold, MarkKind
from plait.graph._model import Backward, Graph, Node, Value
from plait.graph._notation import (
    elements,
    number,
    op_name,
    plural,
    shorten,
    span,
    times,
    value_name,
    value_type,
)
from plait.recording import Read, Sample
from plait.views._lines import short_files
from plait.views._theme import SIGNS, WIDTH, Paint, clip, visible

SMALL = 30  # graphs with fewer nodes show the numbers of their backward walk
_KINDS = {"carried": ""}
_EVENTS = {"optimizer": "optimizer step"}
_INPUTS = 12  # inputs that are listed; the rest is counted


@dataclass(frozen=True, slots=True)
class _Drawing:
    graph: Graph
    paint: Paint
    width: int
    files: dict[str, str]
    reads: Sequence[Read]
    samples: Sequence[Sample]


def tree_view(
    graph: Graph,
    paint: Paint,
    *,
    reads: Sequence[Read] = (),
    samples: Sequence[Sample] = (),
    width: int = WIDTH,
) -> str:
    """The folded graph. `reads` are the numbers of one step, `samples` the elements of its small tensors."""
    drawing = _Drawing(graph, paint, width, short_files(s.file for s in graph.sites), reads, samples)
    lines = [*_inputs(drawing)]
    root = content(fold(graph))
    lines += _children(drawing, root, "", max(root.count, 1))
    return "\n".join(clip(line, width) for line in lines) if lines else "(nothing was computed)"


def content(root: Fold) -> Fold:
    """Where something happens first: the functions under way around everything say nothing about the step."""
    while len(inside := _inside(root)) == 1 and _only_around(inside[0]):
        root = inside[0]
    return root


def _inputs(drawing: _Drawing) -> Iterator[str]:
    graph = drawing.graph
    nodes = [node for node in graph.nodes if node.kind == "input"]
    small = len(graph.nodes) < SMALL
    listed = nodes if small else [node for node in nodes if node.op not in ("parameter", "buffer")]
    for node in listed[:_INPUTS]:
        value = graph.values[node.outputs[0]]
        text = f"{value_name(graph, value)} = {_KINDS.get(node.op, node.op + ' ')}{value_type(value)}"
        text += "  from an earlier step" if node.op == "carried" else ""
        if small and (shown := _sample(drawing, node.id, "value")):
            text += drawing.paint("dim", f"  {shown}")
        yield _with_place(drawing, text, node.site)
    if len(listed) > _INPUTS:
        yield f"and {plural(len(listed) - _INPUTS, 'input')} more"
    rest = [node for node in nodes if node not in listed] if not small else []
    for what in ("parameter", "buffer"):
        found = [graph.values[node.outputs[0]] for node in rest if node.op == what]
        if found:
            count = sum(_elements(value) for value in found)
            yield f"{plural(len(found), what)} with {plural(count, 'element')}"
    if nodes:
        yield ""


def _elements(value: Value) -> int:
    count = 1
    for extent in value.shape:
        count *= extent
    return count


def _children(drawing: _Drawing, root: Fold, start: str, around: int) -> Iterator[str]:
    """The lines of everything inside, with an explicit stack: recursion may be as deep as the program's."""
    stack: list[tuple[Fold, str, bool, int]] = []

    def push(parent: Fold, indent: str, count: int) -> None:
        inside = _inside(parent)
        for place, child in reversed(list(enumerate(inside))):
            stack.append((child, indent, place == len(inside) - 1, count))

    push(root, start, around)
    while stack:
        item, indent, last, count = stack.pop()
        branch = indent + ("└─ " if last else "├─ ")
        deeper = indent + ("   " if last else "│  ")
        yield from _item(drawing, item, branch, deeper, count)
        if item.kind == "loop":
            # Inside a loop a thing is in every round if it ran as often as the loop had rounds.
            push(item, deeper, _rounds(drawing.graph, item))
        else:
            push(item, deeper, item.count or 1)


def _inside(item: Fold) -> list[Fold]:
    return [child for child in item.children if child.kind != "input"]


def _only_around(item: Fold) -> bool:
    """A function that is under way, or the round of a training loop that the step is."""
    return (item.kind == "frame" and item.depth == 1) or (item.kind == "loop" and item.trips == (1, 1))


def _rounds(graph: Graph, item: Fold) -> int:
    return sum(graph.regions[member].trips or 0 for member in item.members)


def _item(drawing: _Drawing, item: Fold, branch: str, deeper: str, around: int) -> Iterator[str]:
    graph, paint = drawing.graph, drawing.paint
    often = "" if item.count == around else f"{times(item.count)} "
    branch = paint("dim", branch)
    if item.kind == "op":
        small = len(graph.nodes) < SMALL and not item.label.startswith(("empty", "new_empty"))
        shown = _sample(drawing, item.members[0], "value") if small else ""
        shown = shown if len(graph.nodes[item.members[0]].outputs) == 1 else ""
        text = often + _op(graph, [graph.nodes[member] for member in item.members], bool(shown))
        text += paint("dim", f"  {shown}") if shown else ""
        yield branch + _with_place(drawing, text, item.site, len(deeper))
    elif item.kind == "frame":
        deep = f"  calls itself, {item.depth} deep" if item.depth > 1 else ""
        yield branch + _with_place(drawing, f"{often}{paint('bold', item.label)}{deep}", item.site, len(deeper))
    elif item.kind == "again":
        yield branch + _with_place(drawing, f"{times(item.count)} {item.label} again", item.site, len(deeper))
    elif item.kind == "loop":
        trips = f"x {span(*item.trips)}" if item.trips is not None else "rounds unknown"
        if item.count > 1 and item.trips is not None:
            trips += f", {_rounds(graph, item):,} rounds in all"
        label = shorten(item.label, max(drawing.width - len(deeper) - len(often + trips) - 4, 20))
        text = f"{often}{paint('loop', SIGNS['loop'])} {label}  {paint('loop', trips)}"
        yield branch + _with_place(drawing, text, None, len(deeper))
    elif item.kind == "decision":
        site = graph.site_of(graph.decisions[item.members[0]])
        asked = graph.decisions[item.members[0]].outcome is not None or (site is not None and site.test is not None)
        kind: MarkKind = "decision" if asked else "read"
        text = f"{paint(kind, SIGNS[kind])} {_decision(drawing, item)}"
        yield branch + _with_place(drawing, text, item.site, len(deeper))
    elif item.kind == "backward":
        passes = [graph.backwards[member] for member in item.members]
        text = f"{often}{paint('backward', SIGNS['backward'])} {_backward(graph, passes)}"
        yield branch + _with_place(drawing, text, item.site, len(deeper))
        if len(graph.nodes) < SMALL:
            yield from (deeper + line for line in _walk(drawing, passes[-1]))
    elif item.kind == "mode":
        yield branch + _with_place(drawing, f"{paint('cut', SIGNS['cut'])} {item.label}", item.site, len(deeper))
    else:
        event = graph.events[item.members[0]]
        detail = f" {event.detail}" if event.detail else ""
        text = f"{often}{_EVENTS.get(event.kind, event.kind)}{detail}"
        yield branch + _with_place(drawing, text, item.site, len(deeper))


def _op(graph: Graph, nodes: Sequence[Node], with_elements: bool) -> str:
    node = nodes[0]
    # A value that changes name or number from round to round is shown as in the first one.
    names = _few([value_name(graph, edge.value) for edge in node.inputs])
    arguments = ", ".join([*names, node.arguments] if node.arguments else names)
    if with_elements and not names:  # a tensor that is made from numbers: they stand behind it
        arguments = "..." if node.arguments else ""
    outputs = [graph.values[each] for each in node.outputs]
    made = ", ".join(_few([_laid_over(graph, nodes, place) for place in range(len(outputs))]))
    name = ", ".join(_few([value_name(graph, value) for value in outputs]))
    cut = f"  {SIGNS['cut']} {node.cut}" if node.cut else ""
    written = f"  {SIGNS['write']} writes {value_name(graph, node.writes[0])}" if node.writes else ""
    text = f"{op_name(node.op)}({shorten(arguments, 60)})"
    return (f"{name} = " if name else "") + text + (f"  {made}" if made else "") + cut + written


def _few(names: Sequence[str]) -> list[str]:
    """The names, or the first ones and the last of many."""
    return list(names) if len(names) <= 6 else [*names[:2], "...", names[-1]]


def _laid_over(graph: Graph, nodes: Sequence[Node], place: int) -> str:
    values = [graph.values[node.outputs[place]] for node in nodes if len(node.outputs) > place]
    first = values[0]
    shapes = {value.shape for value in values}
    if len(shapes) == 1 or any(len(shape) != len(first.shape) for shape in shapes):
        return value_type(first)
    return f"{first.dtype}[{', '.join(span(min(sizes), max(sizes)) for sizes in zip(*shapes))}]"


def _decision(drawing: _Drawing, item: Fold) -> str:
    graph = drawing.graph
    decisions = [graph.decisions[member] for member in item.members]
    site = graph.site_of(decisions[0])
    name = value_name(graph, decisions[0].value)
    asked = (site.expression if site is not None else "") or f"{decisions[0].how} of {name}"
    if site is not None and site.test is not None and site.test.role == "part":
        asked = f"{shorten(site.test.expression, 40)}, {asked}"
    outcomes = [decision.outcome for decision in decisions]
    reads = [drawing.reads[each.id] for each in decisions if each.id < len(drawing.reads)]
    if len(decisions) == 1:
        read = reads[0] if reads else None
        outcome = outcomes[0] if outcomes[0] is not None else read.value if read else None
        text = f"{asked}: {number(outcome)}" if outcome is not None else asked
        if read is not None and read.left is not None and read.right is not None:
            symbol = decisions[0].comparison or "?"
            text += drawing.paint("dim", f"  ({number(read.left)} {symbol} {number(read.right)})")
        return text
    if all(outcome is None for outcome in outcomes):
        values = [read.value for read in reads if isinstance(read.value, (int, float))]
        spread = f", {number(min(values))} to {number(max(values))}" if values else ""
        return f"{asked}: {times(len(decisions))} {decisions[0].how}{spread}"
    counted = [(outcome, outcomes.count(outcome)) for outcome in (True, False) if outcome in outcomes]
    text = f"{asked}: {', '.join(f'{times(count)} {outcome}' for outcome, count in counted)}"
    margins = [read.margin for read in reads if read.margin is not None]
    return text + (drawing.paint("dim", f"  closest {min(margins):.2g}") if margins else "")


def _backward(graph: Graph, passes: Sequence[Backward]) -> str:
    first = passes[0]
    roots = ", ".join(value_name(graph, root) for root in first.roots) or "?"
    inputs = f" for {', '.join(value_name(graph, each) for each in first.inputs)}" if first.inputs else ""
    flags = [name for name, on in (("retain_graph", first.retain_graph), ("create_graph", first.create_graph)) if on]
    return f"{first.how} from {roots}{inputs}" + (f"  ({', '.join(flags)})" if flags else "")


def _walk(drawing: _Drawing, backward: Backward) -> Iterator[str]:
    """The numbers of the backward walk: `d loss / d z = [1, 1, 1]`."""
    graph = drawing.graph
    root = value_name(graph, backward.roots[0]) if backward.roots else "?"
    gradients = [sample for sample in drawing.samples if sample.what == "gradient"]
    rows = []
    for sample in sorted(gradients, key=lambda each: -each.node):
        node = graph.nodes[sample.node]
        if sample.output >= len(node.outputs):
            continue
        value = graph.values[node.outputs[sample.output]]
        name = value_name(graph, value)
        kept = f"{name}.grad" if value.leaf and value.requires_grad and value.name else ""
        rows.append((f"d {root} / d {name}", elements(sample.elements), kept))
    wide = max((len(row[0]) for row in rows), default=0)
    far = max((len(row[1]) for row in rows), default=0)
    for left, shown, kept in rows:
        text = f"{left:<{wide}} = {shown:<{far}}  {kept}".rstrip()
        yield shorten(text, drawing.width - 8)


def _sample(drawing: _Drawing, node: int, what: str) -> str:
    for sample in drawing.samples:
        if sample.node == node and sample.what == what:
            return shorten(elements(sample.elements), 40)
    return ""


def _with_place(drawing: _Drawing, text: str, number: int | None, indent: int = 0) -> str:
    """The text with its line of the source at the right edge."""
    site = drawing.graph._site_by_id.get(number) if number is not None else None
    width = drawing.width - indent
    if site is None:
        return clip(text, width)
    place = f"{drawing.files.get(site.file, site.file)}:{site.line}"
    text = clip(text, max(width - len(place) - 2, 20))
    return text + drawing.paint("dim", place.rjust(max(width - visible(text), len(place) + 2)))
