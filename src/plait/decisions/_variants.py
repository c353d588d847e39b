"""The variants of a run by program: what sizes and trip counts they had, and where two of them first part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plait.decisions._survey import Built, Survey
from plait.graph._notation import op_name, span, tensor
from plait.graph._rows import (
    BackwardRow,
    EnterRow,
    EventRow,
    InputRow,
    ModeRow,
    OpRow,
    ReadRow,
    ReturnRow,
    Row,
    TensorType,
)
from plait.graph._site import Loop, Site

SHOWN = 8  # variants of a program that are listed and compared one by one


@dataclass(frozen=True, slots=True)
class Parting:
    """The first point at which a variant differs from the most frequent one of its program.

    `kind` is `decision` (a value that was read fell differently), `loop` (one went on, the other ended), `op`
    (another operation ran, or none), `size` and `argument` (the same operations on other sizes, with other numbers)
    or `source` (the same, on values from elsewhere). `here` and `there` say what this variant and the other one did.
    """

    kind: str
    site: Site | None
    here: str
    there: str


@dataclass(frozen=True, slots=True)
class VariantRow:
    """A variant with the sizes of its data, the trips of its loops, and where it parts from the first of them."""

    variant: Built
    sizes: str
    trips: str
    parting: Parting | None


@dataclass(frozen=True, slots=True)
class Program:
    """Variants that are one program: the same code, loops folded, sizes and arms aside.

    `rows` are the most frequent of them; `read` says how many of the `graphs` were looked at for sizes and trips.
    """

    number: int
    kind: str
    steps: int
    graphs: int
    read: int
    first_step: int
    operations: tuple[int, int]
    decisions: tuple[int, int]
    saved_bytes: tuple[int, int]
    sizes: str
    trips: str
    rows: tuple[VariantRow, ...]


def read_programs(survey: Survey, shown: int = SHOWN) -> tuple[Program, ...]:
    """The programs of a run, in the order of their first step."""
    keys: dict[int, object] = {}
    programs = []
    for number, group in sorted(survey.programs.items()):
        read = [variant for variant in group if variant.graph in survey.tokens]
        listed = read[:shown]
        rows = []
        for variant in listed:
            parting = None
            if variant is not listed[0]:
                parting = _parting(survey, keys, variant.graph, listed[0].graph)
            rows.append(VariantRow(variant, _sizes(survey, [variant]), _rounds(survey, [variant]), parting))
        programs.append(
            Program(
                number, group[0].kind, sum(v.steps for v in group), len(group), len(read),
                min(v.first_step for v in group), _range([v.operations for v in group]),
                _range([v.decisions for v in group]), _range([v.saved_bytes for v in group]),
                _sizes(survey, read), _rounds(survey, read), tuple(rows),
            )
        )  # fmt: skip
    return tuple(programs)


def _range(numbers: Sequence[int]) -> tuple[int, int]:
    return min(numbers), max(numbers)


def _sizes(survey: Survey, variants: Sequence[Built], most: int = 3) -> str:
    """What went into the model: `windows f32[8..32, 10..40, 1..4]`, laid over one another for several variants.

    That is the first tensor that a module used and that is no parameter; in a graph without modules the data that
    the step did not make.
    """
    seen: dict[tuple[str, str, int], list[tuple[int, ...]]] = {}
    for variant in variants:
        for name, kind in _entering(survey, variant.graph):
            seen.setdefault((name, kind.dtype, len(kind.shape)), []).append(tuple(kind.shape))
    parts = []
    for (name, dtype, _), shapes in seen.items():
        spans = [span(min(extents), max(extents)) for extents in zip(*shapes)]
        parts.append(f"{name} {dtype}[{', '.join(spans)}]".strip())
    if len(parts) > most:
        parts = [*parts[:most], f"and {len(parts) - most} more"]
    return ", ".join(parts)


def _entering(survey: Survey, graph: int) -> list[tuple[str, TensorType]]:
    tokens, fields = survey.tokens[graph], survey.fields
    counted = {token for token in set(tokens) if fields(token)[0] == "input"}
    in_modules = {token for token in set(tokens) if fields(token)[0] == "op" and fields(token)[1][2] is not None}
    inputs: list[InputRow] = []
    for place, token in enumerate(tokens):
        if token in counted:
            inputs.append(InputRow(*fields(token)[1]))
        if token not in in_modules:
            continue
        for distance, output in fields(token)[1][5]:
            made = inputs[-distance - 1] if distance < 0 else survey.rows[tokens[place - distance]]
            if isinstance(made, InputRow) and made.what not in ("parameter", "buffer"):
                return [(made.name or "", survey.types[made.type])]
            if isinstance(made, OpRow):
                site = survey.site(made.site)
                name = site.target if site is not None and len(made.outputs) == 1 else None
                return [(name or "", survey.types[made.outputs[output].type])]
    return [(row.name or "", survey.types[row.type]) for row in inputs if row.what == "data"]


def _rounds(survey: Survey, variants: Sequence[Built], most: int = 3) -> str:
    """The rounds of their loops, laid over one another: `x 3..14`."""
    seen: dict[tuple[str, int, str], list[int]] = {}
    for variant in variants:
        for key, counts in survey.graph_trips(variant.graph).items():
            seen.setdefault(key, []).extend(count for count in counts if count is not None)
    parts = [f"x {span(min(known), max(known))}" for known in seen.values() if known]
    return ", ".join(parts if len(parts) <= most else [*parts[:most], "..."])


def _key(row: Row) -> object:
    """What of a row is structure: two graphs part where this differs. None: nothing."""
    match row:
        case OpRow():
            return ("op", row.op, row.site)
        case ReadRow():
            return ("read", row.how, row.site, row.outcome)
        case EnterRow():
            return ("enter", row.function, row.site)
        case ModeRow():
            return ("mode", row.mode, row.enabled, row.site)
        case BackwardRow():
            return ("backward", row.how, row.site)
        case EventRow():
            return ("event", row.what, row.site)
        case _:
            return None  # inputs, aliases and returns follow from the rest


def _structure(survey: Survey, keys: dict[int, object], graph: int) -> list[tuple[int, int]]:
    """(place, row number) of the rows that are structure."""
    found = []
    for place, token in enumerate(survey.tokens[graph]):
        if token not in keys:
            keys[token] = _key(survey.rows[token])
        if keys[token] is not None:
            found.append((place, token))
    return found


def _parting(survey: Survey, keys: dict[int, object], graph: int, other: int) -> Parting:
    """Where the graph first does something else than the other one."""
    here, there = _structure(survey, keys, graph), _structure(survey, keys, other)
    common = 0
    for (_, mine), (_, theirs) in zip(here, there):
        if mine != theirs and keys[mine] != keys[theirs]:
            break
        common += 1
    if common == len(here) == len(there):
        return _size_parting(survey, graph, other)
    last = here[common - 1] if common else None
    return _describe(
        survey,
        None if last is None else (graph, *last),
        (graph, *here[common]) if common < len(here) else None,
        (other, *there[common]) if common < len(there) else None,
    )


_Moment = tuple[int, int, int]  # graph, place in it, row number


def _describe(survey: Survey, before: _Moment | None, mine: _Moment | None, theirs: _Moment | None) -> Parting:
    my_row = None if mine is None else survey.rows[mine[2]]
    their_row = None if theirs is None else survey.rows[theirs[2]]
    if isinstance(my_row, ReadRow) and isinstance(their_row, ReadRow) and my_row.site == their_row.site:
        return Parting("decision", survey.site(my_row.site), str(my_row.outcome), str(their_row.outcome))
    did, did_there = _did(survey, my_row), _did(survey, their_row)
    last = None if before is None else survey.rows[before[2]]
    if isinstance(last, ReadRow) and last.outcome is None:
        site = survey.site(last.site)
        if site is not None and site.test is not None:
            return Parting("decision", replace(site, expression=site.test.expression), did, did_there)
    # A loop has no row of its own: that one has left it shows in where the next thing happens.
    mine_in, theirs_in = _loops_around(survey, mine), _loops_around(survey, theirs)
    for place, loop in reversed(_loops_around(survey, before)):
        if ((place, loop) in mine_in) != ((place, loop) in theirs_in):
            site = replace(place, line=loop.line, expression=loop.header)
            return Parting("loop", site, "goes on" if (place, loop) in mine_in else "ends", "")
    row = my_row if my_row is not None else their_row
    return Parting("op", survey.site(getattr(row, "site", None)), did, did_there)


def _loops_around(survey: Survey, moment: _Moment | None) -> list[tuple[Site, Loop]]:
    """The loops in which a moment lies, outermost first, each with the function that it belongs to (as a site)."""
    if moment is None:
        return []
    graph, end, number = moment
    calls: list[int | None] = []
    for token in survey.tokens[graph][:end]:
        row = survey.rows[token]
        if isinstance(row, EnterRow):
            calls.append(row.site)
        elif isinstance(row, ReturnRow):
            del calls[len(calls) - row.levels :]
    found = []
    for each in [*calls, getattr(survey.rows[number], "site", None)]:
        site = survey.site(each)
        if site is not None:
            found += [(_function(site), loop) for loop in site.loops]
    return found


def _function(site: Site) -> Site:
    """A stand-in for the function around a site, equal for all of its sites."""
    return Site(-1, site.file, 0, 0, None, None, 0, site.function, "", None, (), (), None, False)


def _did(survey: Survey, row: Row | None) -> str:
    site = survey.site(getattr(row, "site", None))
    at = f" in line {site.line}" if site is not None else ""
    match row:
        case None:
            return "ends"
        case OpRow():
            return op_name(row.op) + at
        case ReadRow():
            return f"{row.how} of a value{at}"
        case EnterRow():
            return f"calls {row.function}{at}"
        case BackwardRow():
            return f"{row.how}{at}"
        case ModeRow():
            return f"{row.mode} {'on' if row.enabled else 'off'}{at}"
        case EventRow():
            return row.what + at
        case _:
            return "goes on"


def _size_parting(survey: Survey, graph: int, other: int) -> Parting:
    """The first value whose type differs, when the same operations ran."""
    mine = [row for _, row in survey.items(graph) if isinstance(row, (OpRow, InputRow))]
    theirs = [row for _, row in survey.items(other) if isinstance(row, (OpRow, InputRow))]
    for row, old in zip(mine, theirs):
        made = (row.type,) if isinstance(row, InputRow) else tuple(output.type for output in row.outputs)
        was = (old.type,) if isinstance(old, InputRow) else tuple(output.type for output in old.outputs)
        for here, there in zip(made, was):
            if here != there:
                new, before = survey.types[here], survey.types[there]
                shown = tensor(new.dtype, new.shape), tensor(before.dtype, before.shape)
                if shown[0] == shown[1]:
                    shown = (
                        "requires grad" if new.requires_grad else "no grad",
                        "not" if new.requires_grad else "it does",
                    )
                return Parting("size", survey.site(row.site), *shown)
    for row, old in zip(mine, theirs):
        if isinstance(row, OpRow) and isinstance(old, OpRow) and row.constants != old.constants:
            return Parting("argument", survey.site(row.site), row.constants, old.constants)
    return Parting("source", None, "the same operations on other inputs", "")
