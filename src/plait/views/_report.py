"""What the commands print: the parts of the other modules, put together."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from plait._errors import NotFoundError
from plait.decisions import Survey, read_decisions, read_programs
from plait.graph._marks import Mark
from plait.graph._notation import duration, number, plural, size
from plait.recording import Recording, Step
from plait.views._batches import batch_summary
from plait.views._source import source_view
from plait.views._text import decisions_view, summary, variants_view
from plait.views._theme import WIDTH, Paint
from plait.views._tree import SMALL, tree_view


def report(recording: Recording, *, colour: bool = False, width: int = WIDTH, findings: Sequence[Mark] = ()) -> str:
    """What `plait run` prints at its end: the summary, the annotated source with the findings, the next commands."""
    paint = Paint(colour)
    survey = Survey(recording)
    places = read_decisions(survey)
    source = source_view(survey, places, paint, width, findings, libraries=False)
    parts = [summary(survey, places, paint), source]
    if batched := batch_summary(recording, paint):
        parts.append(_titled("Batches", batched, paint))
    if recording.path is not None:
        parts.append(_next(recording.path, paint))
    return "\n\n".join(parts)


def show(recording: Recording, *, colour: bool = False, width: int = WIDTH) -> str:
    """What `plait show` prints: the summary, the source, the variants, the decisions, and a small graph whole."""
    paint = Paint(colour)
    survey = Survey(recording)
    places = read_decisions(survey)
    parts = [
        summary(survey, places, paint),
        source_view(survey, places, paint, width, libraries=False),
        _titled("Graphs", variants_view(read_programs(survey), survey, paint, width), paint),
        _titled("Decisions", decisions_view(places, survey, paint, width), paint),
    ]
    if batched := batch_summary(recording, paint):
        parts.append(_titled("Batches", batched, paint))
    step = _main_step(recording)
    if step is not None and step.graph is not None and survey.by_graph[step.graph].nodes < SMALL:
        parts.append(_titled(f"Step {step.id}", _tree(recording, step, paint, width), paint))
    return "\n\n".join(parts)


def show_source(recording: Recording, *, colour: bool = False, width: int = WIDTH) -> str:
    """The annotated source alone."""
    survey = Survey(recording)
    return source_view(survey, read_decisions(survey), Paint(colour), width)


def show_graph(recording: Recording, step: int | None = None, *, colour: bool = False, width: int = WIDTH) -> str:
    """The folded graph of a step; of the last one that ran a model or a backward pass if none is named."""
    paint = Paint(colour)
    found = _step(recording, step)
    return f"{_step_line(recording, found)}\n\n{_tree(recording, found, paint, width)}"


def show_json(recording: Recording) -> str:
    """The document of `plait show --json`."""
    from plait.views._json import show_document

    survey = Survey(recording)
    return show_document(survey, read_decisions(survey), read_programs(survey))


def _main_step(recording: Recording) -> Step | None:
    """The last step whose graph `Recording.graph` is."""
    for condition in ("complete AND kind != 'rest'", "kind != 'rest'", "1"):
        rows = recording._all(f"SELECT id FROM step WHERE graph IS NOT NULL AND {condition} ORDER BY id DESC LIMIT 1")
        if rows:
            number_ = int(rows[0][0])
            return recording.steps[number_]
    return None


def _tree(recording: Recording, step: Step, paint: Paint, width: int) -> str:
    graph = recording.graph_of(step)
    assert step.graph is not None
    samples = recording.samples(step.graph) if len(graph.nodes) < SMALL else ()
    text = tree_view(graph, paint, reads=step.reads, samples=samples, width=width)
    if samples:
        ((first,),) = recording._all("SELECT MIN(id) FROM step WHERE graph = ?", step.graph)
        if first != step.id:
            text += "\n" + paint("dim", f"Elements are those of step {first}, the first that built this graph.")
    return text


def _step_line(recording: Recording, step: Step) -> str:
    parts = [f"step {step.id} ({step.kind}{'' if step.complete else ', cut off'})"]
    if step.graph is not None:
        graph = recording.graph_of(step)
        parts.append(f"graph {step.graph}: {plural(sum(node.kind == 'op' for node in graph.nodes), 'op')}")
    parts.append(duration(step.ns))
    if step.loss is not None:
        parts.append(f"loss {number(step.loss)}")
    if step.grad_norm is not None:
        parts.append(f"gradient norm {number(step.grad_norm)}")
    if step.saved_bytes:
        parts.append(f"{size(step.saved_bytes)} kept for backward")
    return ", ".join(parts)


def _titled(title: str, text: str, paint: Paint) -> str:
    return f"{paint('bold', title)}\n{text}"


def _next(path: str, paint: Paint) -> str:
    name = shlex.quote(os.path.relpath(path) if os.path.isabs(path) else path)
    commands = [
        (f"plait explain {name}", "what is wrong, and where"),
        (f"plait view {name} --open", "the page: steps, source, graph, differences"),
        (f"plait show {name}", "variants and decisions as tables"),
        (f"plait show {name} --graph", "the graph of the last step, loops folded"),
        (f"plait export {name} --to dot", "or mermaid, json, perfetto"),
    ]
    wide = max(len(command) for command, _ in commands)
    return "\n".join(
        [
            paint("dim", "Next:"),
            *(f"  {command:<{wide}}   {paint('dim', text)}" for command, text in commands),
        ]
    )


EXPORTS = ("dot", "mermaid", "json", "perfetto")


def export(recording: Recording, to: str, step: int | None = None) -> str:
    """The graph of a step in one of the formats of `EXPORTS`."""
    found = _step(recording, step)
    # Imported when asked for: `plait show` needs none of them and should answer quickly.
    if to == "perfetto":
        from plait.views._perfetto import perfetto

        return perfetto(recording, found)
    graph = recording.graph_of(found)
    if to == "json":
        from plait.views._json import graph_document

        return graph_document(graph, found)
    if to == "mermaid":
        from plait.views._mermaid import mermaid

        return mermaid(graph)
    from plait.views._dot import dot

    return dot(graph)


def graph_json(recording: Recording, step: int | None = None) -> str:
    """The graph of a step as a JSON document."""
    return export(recording, "json", step)


def _step(recording: Recording, step: int | None) -> Step:
    found = recording.steps[step] if step is not None else _main_step(recording)
    if found is None:
        raise NotFoundError("the recording holds no graph: nothing was computed with tensors while it ran")
    return found
