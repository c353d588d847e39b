"""What a page holds, read from a recording: the head (run, source, decisions, variants) and one chunk a distinct graph.

Everything here is plain data for `_pack.pack`; nothing is drawn. A page carries the most frequent graphs and the
chosen step within a budget of nodes; `plait view --serve` hands out the rest when they are asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from plait import __version__
from plait._errors import NotFoundError
from plait.decisions import Place, Program, Survey, read_decisions, read_programs
from plait.graph._marks import Contrast, Mark
from plait.graph._notation import number, plural, size, span
from plait.graph._site import Site
from plait.recording import Recording, Variant
from plait.recording._floats import floating
from plait.views._batch import batch_list
from plait.views._lines import Line, describe, lines_of, short_files
from plait.views._spark import sparks
from plait.views._text import summary
from plait.views._theme import Paint
from plait.views._wire import WIRE, WIRE_VERSION, Columns, Table, graph_wire

READS_PER_CHUNK = 512
NODE_BUDGET = 250_000  # nodes of all graphs that a page carries
STATS_BUDGET = 200_000  # measured backward nodes that a page carries
_SAMPLED = 64  # graphs with fewer nodes also carry elements


class Pages:
    """Reads a recording once and makes the parts of its page.

    `marks` are remarks that somebody else (the rules) made about lines of the source; those of kind `finding` are
    also listed on the first part of the page. `contrast` is a comparison with other runs, to begin with.
    """

    def __init__(
        self, recording: Recording, marks: Iterable[Mark] = (), step: int | None = None,
        contrast: Contrast | None = None,
    ) -> None:  # fmt: skip
        self.recording = recording
        self.survey = Survey(recording)
        self.variants = recording.variants
        self.places = read_decisions(self.survey)
        self.programs = read_programs(self.survey)
        self.marks = tuple(marks)
        self.contrast = contrast
        self.broken: dict[int, str] = {}
        count = len(recording.steps)
        self.start = _main_step(recording)
        if step is None and contrast is not None and contrast.sides:
            step = contrast.sides[0].step
        if step is not None:
            if not -count <= step < count:
                recording.steps[step]  # says what there is
            self.start = step + count if step < 0 else step

    # -- chunks -------------------------------------------------------------------------------------------------

    def graphs(self, budget: int = NODE_BUDGET) -> list[int]:
        """The graphs that a page carries: that of the step to show, then the most frequent and the ends of every
        program, within the budget of nodes."""
        by_graph = {each.graph: each for each in self.variants}
        chosen: dict[int, None] = {}
        if self.start is not None:
            first = self._graph_of(self.start)
            if first is not None:
                chosen[first] = None
        groups: dict[int, list[Variant]] = {}
        for variant in self.variants:
            groups.setdefault(variant.program, []).append(variant)
        for group in groups.values():
            for end in (group[0], group[-1]):
                chosen.setdefault(end.graph)
        for variant in sorted(self.variants, key=lambda each: -each.steps):
            chosen.setdefault(variant.graph)
        kept: list[int] = []
        for graph in chosen:
            nodes = by_graph[graph].nodes if graph in by_graph else 0
            if kept and nodes > budget:
                continue
            budget -= nodes
            kept.append(graph)
        return kept

    def _graph_of(self, step: int) -> int | None:
        found: int | None = self.recording._all("SELECT graph FROM step WHERE id = ?", step)[0][0]
        return found

    def graph(self, graph: int) -> Columns | None:
        """The chunk of one graph; None if the file holds it but it cannot be read."""
        try:
            built = self.recording.graph_number(graph)
            samples = self.recording.samples(graph) if len(built.nodes) < _SAMPLED else ()
            return graph_wire(built, self.recording.durations(graph), samples)
        except (IndexError, KeyError, ValueError) as error:
            # A row that points outside its graph: the rest of the recording is still worth a look.
            self.broken[graph] = f"{type(error).__name__}: {error}"
            return None

    def reads(self, chunk: int) -> str:
        """The reads of `READS_PER_CHUNK` steps, as JSON text; numbers that JSON does not know are words."""
        first = chunk * READS_PER_CHUNK
        rows = self.recording._all(
            "SELECT reads FROM step WHERE id >= ? AND id < ? ORDER BY id", first, first + READS_PER_CHUNK
        )
        texts = [
            "null" if text is None else text.replace("NaN", '"nan"').replace("-Infinity", '"-inf"').replace(
                "Infinity", '"inf"') for (text,) in rows
        ]  # fmt: skip
        return f"[{','.join(texts)}]"

    @property
    def read_chunks(self) -> list[int]:
        """The numbers of the chunks of reads that are not empty."""
        return [
            int(chunk)
            for (chunk,) in self.recording._all(
                f"SELECT DISTINCT id / {READS_PER_CHUNK} FROM step WHERE reads IS NOT NULL ORDER BY 1"
            )
        ]

    def stats(self) -> dict[str, Columns]:
        """The measured backward passes: by step, columns over the nodes that were measured."""
        found: dict[str, Columns] = {}
        budget = STATS_BUDGET
        steps = self.recording._all("SELECT step, COUNT(*) FROM backward GROUP BY step ORDER BY step")
        if self.start is not None:
            steps.sort(key=lambda each: abs(each[0] - (self.start or 0)))
        for step, count in steps:
            budget -= count
            if budget < 0 and found:
                break
            try:
                rows = self.recording.backward_stats(step)
            except (IndexError, KeyError):
                continue
            found[str(step)] = {
                "grad": [each.backward for each in rows],
                "node": [each.node for each in rows],
                "in": [_finite(each.norm_in) for each in rows],
                "out": [_finite(each.norm_out) for each in rows],
                "born": [place for place, each in enumerate(rows) if each.first_nonfinite],
            }
        return found

    # -- head ---------------------------------------------------------------------------------------------------

    def head(self, graphs: Sequence[int] | None, serve: bool = False) -> Columns:
        """Everything but the graphs. `graphs`: those that the page carries (None: it asks for each)."""
        recording, survey = self.recording, self.survey
        names = short_files(self._files())
        files = Table()
        for file in names:
            files(file)
        notes = [list(each) for each in recording.notes]
        if self.broken:
            notes.append(["damaged", f"{plural(len(self.broken), 'graph')} of this recording cannot be read and"
                                     f" {'is' if len(self.broken) == 1 else 'are'} left out"])  # fmt: skip
        if graphs is not None and len(graphs) + len(self.broken) < len(self.variants):
            left = len(self.variants) - len(graphs) - len(self.broken)
            notes.append(["left out", f"{plural(left, 'rarer graph')} would make this page too large;"
                                      " `plait view FILE --serve` shows them all"])  # fmt: skip
        return {
            "format": WIRE, "version": WIRE_VERSION, "plait": __version__, "serve": serve, "start": self.start,
            "meta": recording.meta, "notes": notes,
            "summary": [[line[:10].strip(), line[10:]] for line in
                        summary(survey, self.places, Paint(False)).splitlines() if not line.startswith("!")],
            "files": self._sources(names), "sites": self._sites(files), "steps": self._steps(),
            "variants": [
                [each.graph, each.program, each.steps, each.first_step, each.nodes, each.operations, each.decisions,
                 each.saved_bytes or 0]
                for each in self.variants
            ],
            "programs": [self._program(each) for each in self.programs],
            "places": self._places(),
            "findings": [[mark.kind, mark.text, files(mark.file), mark.line] for mark in self.marks],
            "loops": [[files(each.file), each.line, each.header, list(each.trips or ()), each.around]
                      for each in survey.loops],
            "batches": batch_list(recording),
            "contrast": None if self.contrast is None else _contrast(self.contrast, names),
            "graphs": graphs, "reads_per_chunk": READS_PER_CHUNK,
        }  # fmt: skip

    def _files(self) -> Iterator[str]:
        yield from dict.fromkeys(
            [
                *(site.file for site in self.survey.sites.values()),
                *self.recording.sources,
                *(m.file for m in self.marks),
            ]
        )

    def _sources(self, names: dict[str, str]) -> list[Columns]:
        lines = lines_of(self.survey, self.places)
        for mark in self.marks:
            lines.by_file.setdefault(mark.file, {}).setdefault(mark.line, Line()).marks.append(mark)
        sources = self.recording.sources
        found = []
        for file, short in names.items():
            by_line = lines.by_file.get(file, {})
            found.append({
                "name": short, "path": file, "text": sources.get(file),
                "lines": [
                    [at, line.runs, line.ops, line.ns, line.saved, [[mark.kind, mark.text] for mark in line.marks]]
                    for at, line in sorted(by_line.items())
                ],
            })  # fmt: skip
        return found

    def _sites(self, files: Table) -> Columns:
        text = Table()
        sites: dict[int, Site] = dict(sorted(self.survey.sites.items()))
        return {
            "id": list(sites),
            "file": [files(each.file) for each in sites.values()],
            "line": [each.line for each in sites.values()],
            "end_line": [each.end_line for each in sites.values()],
            "column": [-1 if each.column is None else each.column for each in sites.values()],
            "end_column": [-1 if each.end_column is None else each.end_column for each in sites.values()],
            "function": [text(each.function) for each in sites.values()],
            "expression": [text(each.expression) for each in sites.values()],
            "target": [text(each.target or "") for each in sites.values()],
            "branches": [[[b.line, b.column, int(b.arm)] for b in each.branches] for each in sites.values()],
            "test": [
                None if (t := each.test) is None else
                [t.kind, t.line, t.column, t.expression, t.role, t.true_line, t.true_text, t.false_line, t.false_text]
                for each in sites.values()
            ],
            "text": text.items,
        }  # fmt: skip

    def _steps(self) -> Columns:
        rows = self.recording._all(
            "SELECT graph, kind, ns, operations_ns, loss, grad_norm, saved_bytes, complete FROM step ORDER BY id"
        )
        kinds = Table()
        return {
            "graph": [-1 if row[0] is None else row[0] for row in rows],
            "kind": [kinds(row[1]) for row in rows],
            "kinds": kinds.items,
            "ns": [row[2] or 0 for row in rows],
            "operations_ns": [row[3] or 0 for row in rows],
            "loss": [_finite(floating(row[4])) for row in rows],
            "grad_norm": [_finite(floating(row[5])) for row in rows],
            "saved": [row[6] or 0 for row in rows],
            "incomplete": [place for place, row in enumerate(rows) if not row[7]],
        }

    def _program(self, program: Program) -> Columns:
        return {
            "number": program.number, "kind": program.kind, "steps": program.steps, "graphs": program.graphs,
            "operations": span(*program.operations), "decisions": span(*program.decisions),
            "saved": size(program.saved_bytes[1]) if program.saved_bytes[1] else "", "sizes": program.sizes,
            "rows": [
                [row.variant.graph, row.sizes, row.trips,
                 None if (p := row.parting) is None else [p.kind, _site_number(p.site), p.here, p.there,
                                                          p.site.line if p.site is not None else None]]
                for row in program.rows
            ],
        }  # fmt: skip

    def _places(self) -> list[Columns]:
        drawn = sparks(self.survey, self.places)
        return [
            {
                "site": _site_number(place.site), "how": place.how, "comparison": place.comparison,
                "predicate": place.predicate, "count": place.count, "text": describe(place),
                "arms": [[int(arm.outcome), arm.count, arm.line, arm.text] for arm in place.arms],
                "numbers": None if (n := place.numbers) is None else [number(n.low), number(n.mean), number(n.high)],
                "closest": None if place.closest is None else number(place.closest),
                "closest_step": place.closest_step, "first_step": place.first_step, "decides": place.decides,
                "sampled": place.sampled, "spark": drawn.get(index),
            }
            for index, place in enumerate(self.places)
        ]  # fmt: skip


def _contrast(found: Contrast, names: dict[str, str]) -> Columns:
    numbers = {file: number for number, file in enumerate(names)}
    sides = []
    for side in found.sides:
        site = side.site
        place = None if site is None else {
            "name": names.get(site.file, PurePath(site.file).name), "file": numbers.get(site.file, -1),
            "line": site.line, "end_line": site.end_line, "column": -1 if site.column is None else site.column,
            "end_column": -1 if site.end_column is None else site.end_column, "expression": site.expression,
        }  # fmt: skip
        sides.append({"label": side.label, "text": side.text, "step": side.step, "site": place, "source": side.source})
    return {"text": list(found.text), "sides": sides, "lists": [[title, list(each)] for title, each in found.lists]}


def _site_number(site: Site | None) -> int:
    return -1 if site is None else site.id


def _finite(value: float | None) -> float | str | None:
    """A number that JSON knows, or the word for one that it does not."""
    if value is None or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _main_step(recording: Recording) -> int | None:
    """The step to begin with: the last of the program that trained most often, or else ran most often."""
    for condition in ("s.complete AND s.kind = 'train'", "s.complete AND s.kind != 'rest'", "s.kind != 'rest'", "1"):
        rows = recording._all(
            f"SELECT MAX(s.id) FROM step s JOIN graph g ON g.id = s.graph WHERE {condition}"
            " GROUP BY g.program ORDER BY COUNT(*) DESC, MAX(s.id) DESC LIMIT 1"
        )
        if rows:
            return int(rows[0][0])
    return None


def document(pages: Pages, graphs: Sequence[int]) -> Columns:
    """Head and chunks as one document: what the tests compare a page with."""
    return {"head": pages.head(graphs), "graphs": {str(each): pages.graph(each) for each in graphs},
            "reads": {str(each): json.loads(pages.reads(each)) for each in pages.read_chunks}}  # fmt: skip


__all__ = ["NODE_BUDGET", "NotFoundError", "Pages", "Place", "document"]
