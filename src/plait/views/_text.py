"""The summary, the variants table and the decisions table as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap

from plait.decisions import Parting, Place, Program, Survey
from plait.graph._notation import duration, number, plural, shorten, size, span, times
from plait.recording import losses
from plait.views._lines import asked, describe, short_files, where
from plait.views._theme import SIGNS, WIDTH, Paint

_KINDS = {"train": "training step", "forward": "forward step", "rest": "other step"}


def summary(survey: Survey, places: Sequence[Place], paint: Paint) -> str:
    """What ran, its steps, its graphs, its decisions and its time: a line each, then the notes."""
    recording = survey.recording
    rows = [
        ("program", _program(recording.meta)),
        ("steps", _steps(survey)),
        ("graphs", _graphs(survey)),
        ("decisions", _decisions(places)),
        ("time", _time(survey)),
    ]
    lines = [f"{paint('dim', f'{name:<10}')}{text}" for name, text in rows]
    for _, text in recording.notes:
        first, *rest = wrap(text, WIDTH - 2) or [""]
        lines += [f"{paint('finding', '!')} {first}", *(f"  {line}" for line in rest)]
    return "\n".join(lines)


def _program(meta: dict[str, str]) -> str:
    text = " ".join(filter(None, (meta.get("program"), meta.get("arguments")))) or "a block under plait.record()"
    status = meta.get("exit_status", "0")
    ended = f", ended with status {status}" if status != "0" else ""
    if meta.get("status", "").startswith("stopped by") and "SystemExit" not in meta["status"]:
        ended = f", {meta['status']}"
    elif meta.get("status") == "running":
        ended = ", still running or killed before it ended"
    versions = [f"{name} {meta[name]}" for name in ("python", "torch") if meta.get(name)]
    return shorten(text, 60) + ended + (f"   ({', '.join(versions)})" if versions else "")


def _steps(survey: Survey) -> str:
    if not survey.groups:
        return "none"
    kinds: dict[str, list[int]] = {}
    for group in survey.groups:
        sums = kinds.setdefault(group.kind, [0, 0])
        sums[0] += group.steps
        sums[1] += group.ns
    ordered = sorted(kinds.items(), key=lambda item: (item[0] == "rest", -item[1][0]))
    text = ", ".join(plural(count, _KINDS.get(kind, kind)) for kind, (count, _) in ordered)
    _, (count, ns) = ordered[0]
    if count > 1:
        text += f"; {duration(ns / count)} each"
    if (ends := losses(survey.recording)) is not None:
        text += f"; loss {number(ends[0])}" + (f" to {number(ends[1])}" if count > 1 else "")
    return text


def _graphs(survey: Survey) -> str:
    built = survey.graphs
    if not built:
        return "none"
    operations = [each.operations for each in built]
    kept = max(each.saved_bytes for each in built)
    text = f"{len(built):,} distinct, {plural(len(survey.programs), 'program')}"
    text += f"; {span(min(operations), max(operations))} ops"
    return text + (f"; up to {size(kept)} kept for backward" if kept else "")


def _decisions(places: Sequence[Place]) -> str:
    deciding = [place for place in places if place.decides]
    reading = [place for place in places if not place.decides]
    parts = []
    if deciding:
        count = sum(place.count for place in deciding)
        both = sum(len(place.arms) > 1 for place in deciding)
        fell = "always the same way" if not both else "which went both ways" if len(deciding) == 1 else (
            f"{both:,} went both ways")  # fmt: skip
        parts.append(f"{count:,} at {plural(len(deciding), 'place')}, {fell}")
    if reading:
        parts.append(f"{plural(sum(place.count for place in reading), 'value')} only read, nothing decided")
    return "; ".join(parts) or "none: the graph never depended on the value of a tensor"


def _time(survey: Survey) -> str:
    meta = survey.recording.meta
    totals = survey.op_totals
    count, spent = sum(total.runs for total in totals), sum(total.ns for total in totals)
    parts = []
    if meta.get("seconds"):
        parts.append(f"{duration(float(meta['seconds']) * 1e9)} in all")
    if count:
        parts.append(f"{duration(spent)} in {plural(count, 'operation')}")
    if meta.get("overhead_seconds"):
        parts.append(f"{duration(float(meta['overhead_seconds']) * 1e9)} for recording")
    return ", ".join(parts) or "not measured"


# -- tables -----------------------------------------------------------------------------------------------------


def variants_view(programs: Sequence[Program], survey: Survey, paint: Paint, width: int = WIDTH) -> str:
    """Programs, each with its most frequent graphs and where they part."""
    if not programs:
        return "No graph was kept."
    names = short_files(site.file for site in survey.sites.values())
    blocks: list[str] = []
    for each in programs[:12]:
        lines = list(_program_block(each, names, paint, width))
        if blocks and len(lines) == 1 and blocks[-1].count("\n") == 0:
            blocks[-1] += "\n" + lines[0]
        else:
            blocks.append("\n".join(lines))
    if len(programs) > 12:
        blocks.append(paint("dim", f"and {plural(len(programs) - 12, 'program')} more"))
    if any(program.read < program.graphs for program in programs):
        blocks.append(
            paint(
                "dim",
                "Sizes and rounds are read from the most frequent, the smallest and the largest graphs.",
            )
        )
    return "\n\n".join(blocks)


def _program_block(program: Program, names: dict[str, str], paint: Paint, width: int) -> Iterable[str]:
    head = f"program {program.number}"
    kind = _KINDS.get(program.kind, program.kind)
    facts = f"{plural(program.steps, kind)}, {plural(program.graphs, 'graph')}, {span(*program.operations)} ops"
    if program.sizes:
        facts += f"; {program.sizes}"
    if program.trips:
        facts += f"; rounds {program.trips}"
    yield f"{paint('bold', head)}   {shorten(facts, width - len(head) - 3)}"
    if program.graphs == 1:
        return
    rows = program.rows
    sizes = max((len(row.sizes) for row in rows), default=0)
    sizes = min(max(sizes, 5 if sizes else 0), 24)
    trips = min(max((len(row.trips) for row in rows), default=0), 16)
    trips = max(trips, 6 if trips else 0)
    columns = [f"{'graph':>7}", f"{'steps':>6}", f"{'first':>6}", f"{'ops':>5}"]
    head = " ".join(columns) + (f"  {'sizes':<{sizes}}" if sizes else "") + (f"  {'rounds':<{trips}}" if trips else "")
    yield paint("dim", (head + ("  parts from the first at" if len(rows) > 1 else "")).rstrip())
    for row in rows:
        variant = row.variant
        text = f"{variant.graph:>7} {variant.steps:>6} {variant.first_step:>6} {variant.operations:>5}"
        text += f"  {shorten(row.sizes, sizes):<{sizes}}" if sizes else ""
        text += f"  {shorten(row.trips, trips):<{trips}}" if trips else ""
        if row.parting is not None:
            text += "  " + shorten(_parting(row.parting, names), max(width - len(text) - 2, 20))
        yield text.rstrip()
    if program.graphs > len(rows):
        yield paint("dim", f"{'':>7} and {plural(program.graphs - len(rows), 'graph')} more")


def _parting(parting: Parting, names: dict[str, str]) -> str:
    at = f"{where(parting.site, names)} " if parting.site is not None else ""
    if parting.kind in ("decision", "loop"):
        asked = parting.site.expression if parting.site is not None else "a decision"
        at += f"{shorten(asked, 24)}: " if parting.kind == "decision" else f"{shorten(asked, 24)} "
    return f"{at}{parting.here}" + (f", there {parting.there}" if parting.there else "")


def decisions_view(places: Sequence[Place], survey: Survey, paint: Paint, width: int = WIDTH) -> str:
    """A block for every decision, with the line each outcome led to; a line for every value that was only read."""
    if not places:
        return "No tensor was asked for its value."
    names = short_files(site.file for site in survey.sites.values())
    at = {place: where(place.site, names) if place.site is not None else "(unknown line)" for place in places}
    first = min(max(map(len, at.values())), 36)
    lines: list[str] = []
    for place in places:
        if place.decides:
            sign = paint("decision", SIGNS["decision"])
            lines.append(f"{sign} {shorten(at[place], first):<{first}}  {shorten(place.predicate, width - first - 4)}")
            shared = sum(other.predicate == place.predicate and at[other] == at[place] for other in places) > 1
            lines += [" " * (first + 4) + line for line in _fell(place, paint, width - first - 4, shared)]
    reads = [place for place in places if not place.decides]
    second = min(max((len(place.predicate) for place in reads), default=0), 36)
    for place in reads:
        head = f"{paint('read', SIGNS['read'])} {shorten(at[place], first):<{first}}"
        middle = f"{shorten(place.predicate, second):<{second}}"
        lines.append(f"{head}  {middle}  {shorten(describe(place), width - first - second - 6)}".rstrip())
    if any(place.sampled for place in places):
        lines.append(paint("dim", "Values and closest distances come from a part of the steps; counts are exact."))
    return "\n".join(lines)


def _fell(place: Place, paint: Paint, width: int, shared: bool) -> Iterable[str]:
    """How a decision fell: one line an outcome, then its numbers; which part of a test it is, if several were read."""
    if shared and place.site is not None:
        yield shorten(f"by {place.site.expression}", width)
    wide = max((len(times(arm.count)) for arm in place.arms), default=0)
    for arm in place.arms:
        text = f"{times(arm.count):>{wide}} {arm.outcome!s:<5}"
        if arm.line is not None:
            text += paint("dim", f"  line {shorten(f'{arm.line}: {arm.text}', width - len(text) - 7)}")
        yield text.rstrip()
    if not place.arms:
        yield asked(place)
    if place.numbers is not None:
        low, mean, high = (number(each) for each in (place.numbers.low, place.numbers.mean, place.numbers.high))
        yield f"value {low}" if low == high else f"values {low} to {high}, mean {mean}"
    if place.closest is not None:
        yield f"closest {place.closest:.2g} (step {place.closest_step})"
