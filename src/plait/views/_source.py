"""The annotated source: the person's own files with what happened in each line, like a coverage report."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Sequence

from plait.decisions import Place, Survey
from plait.graph._marks import Mark, MarkKind
from plait.graph._notation import duration, plural, shorten, size
from plait.views._lines import Line, Lines, lines_of, short_files
from plait.views._theme import NAMES, SIGNS, WIDTH, Paint

_GAP = 2  # lines without anything of their own that are still shown between two that have something
_LEFT = 37  # columns of numbers in front of the source


def source_view(
    survey: Survey, places: Sequence[Place], paint: Paint, width: int = WIDTH, findings: Sequence[Mark] = (),
    libraries: bool = True,
) -> str:  # fmt: skip
    """All files in which something happened; the program's own file first, then the busiest.

    Installed packages are a line each if `libraries` is off.
    """
    lines = lines_of(survey, places, findings)
    sources = survey.recording.sources
    names = short_files(lines.by_file)
    blocks = [
        _heading(names[file], lines.by_file[file], paint) + paint("dim", "   (lines: plait show FILE --source)")
        if not libraries and _installed(file)
        else "\n".join(_file(names[file], sources.get(file), lines.by_file[file], lines, paint, width))
        for file in _files_in_order(survey, lines)
        if any(line.ops or any(mark.kind != "loop" for mark in line.marks) for line in lines.by_file[file].values())
    ]
    if not blocks:
        return "No line of the program ran an operation on tensors while it was recorded."
    used = {mark.kind for by_line in lines.by_file.values() for line in by_line.values() for mark in line.marks}
    return "\n\n".join(blocks) + "\n\n" + "\n".join(_legend(lines, used, paint))


def _files_in_order(survey: Survey, lines: Lines) -> list[str]:
    program = survey.recording.meta.get("program", "")

    def key(file: str) -> tuple[bool, int, str]:
        own = program != "" and (file.endswith(program) or os.path.splitext(os.path.basename(file))[0] == program)
        return not own, -sum(each.ns for each in lines.by_file[file].values()), file

    return sorted(lines.by_file, key=key)


def _legend(lines: Lines, used: set[MarkKind], paint: Paint) -> Iterable[str]:
    signs = [f"{paint(kind, sign)} {NAMES[kind]}" for kind, sign in SIGNS.items() if kind in used]
    if signs:
        yield "   ".join(signs)
    if lines.saved_step is not None:
        yield paint(
            "dim",
            f"saved: kept for backward in step {lines.saved_step}, the largest; parameters, inputs and shared"
            " storage aside",
        )


def _installed(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file


def _heading(name: str, by_line: dict[int, Line], paint: Paint) -> str:
    spent = sum(line.ns for line in by_line.values())
    return f"{paint('bold', name)}   {plural(sum(line.ops for line in by_line.values()), 'op')}, {duration(spent)}"


def _file(
    name: str, text: str | None, by_line: dict[int, Line], lines: Lines, paint: Paint, width: int
) -> Iterable[str]:
    yield _heading(name, by_line, paint)
    head = f"{'runs':>5} {'ops':>5} {'time':>6} {'%':>3} {'saved':>6} {'line':>5}"
    yield paint("dim", head)
    if text is None:
        rows: list[str] = []
        shown: list[int | None] = [*sorted(by_line)]
    else:
        rows = text.splitlines()
        shown = _shown(text, rows, set(by_line))
    strip = _indent_of(rows, shown)
    for number in shown:
        if number is None:
            yield " " * (_LEFT - 2) + paint("dim", "   ...")
            continue
        source = rows[number - 1].expandtabs(4)[strip:] if 0 < number <= len(rows) else "(source not kept)"
        yield from _line(number, source.rstrip(), by_line.get(number), lines, paint, width)


def _line(number: int, source: str, line: Line | None, lines: Lines, paint: Paint, width: int) -> Iterable[str]:
    room = width - _LEFT
    shown = shorten(source, room)
    if line is None:
        yield (" " * (_LEFT - 7) + f"{number:>5}  " + paint("dim", shown)).rstrip()
        return
    marks = line.marks
    left = _numbers(line, lines)
    hot = lines.ns and line.ns / lines.ns >= 0.1
    text = f"{paint('heat', left) if hot else left} {number:>5}  {shown}"
    # One short remark stands at the end of its line, others below it.
    if len(marks) == 1 and len(shown) + len(marks[0].text) + 5 <= room:
        yield f"{text}   {_remark(marks[0], paint)}"
        return
    yield text
    for mark in marks:
        indent = min(len(source) - len(source.lstrip()), max(room - len(mark.text) - 2, 0))
        yield " " * (_LEFT + indent) + _remark(mark, paint, room - indent)


def _numbers(line: Line, lines: Lines) -> str:
    if not line.ops:
        return " " * 29
    share = f"{100 * line.ns / lines.ns:.0f}" if lines.ns else ""
    saved = size(line.saved) if line.saved else ""
    time = duration(line.ns, short=True) if line.ns else ""
    return f"{compact(line.runs):>5} {compact(line.ops):>5} {time:>6} {share:>3} {saved:>6}"


def _remark(mark: Mark, paint: Paint, room: int = WIDTH) -> str:
    return paint(mark.kind, f"{SIGNS[mark.kind]} {shorten(mark.text, max(room - 2, 20))}")


def compact(count: int) -> str:
    """A count in at most five columns.

    >>> compact(12345), compact(1_234_567), compact(45_600_000)
    ('12345', '1.2M', '46M')
    """
    if count < 100_000:
        return str(count)
    for limit, unit in ((1e6, "k"), (1e9, "M"), (1e12, "G")):
        if count < limit * 0.9995:
            value = count / limit * 1000
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return f"{count / 1e12:.0f}T"


def _indent_of(rows: Sequence[str], shown: Iterable[int | None]) -> int:
    depths = [
        len(row) - len(row.lstrip())
        for number in shown
        if number is not None and number <= len(rows) and (row := rows[number - 1].expandtabs(4)).strip()
    ]
    return min(depths, default=0)


def _shown(text: str, rows: Sequence[str], active: set[int]) -> list[int | None]:
    """Which lines to print, None for a stretch that is left out.

    Those with something, the headers of all that they stand in, and short gaps between them.
    """
    wanted = set(active)
    try:
        tree: ast.AST | None = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        tree = None
    functions: list[tuple[int, int]] = []
    stack = [tree] if tree is not None else []
    while stack:
        node = stack.pop()
        for child in ast.iter_child_nodes(node):
            first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
            if first is not None and last is not None and not any(first <= line <= last for line in active):
                continue
            stack.append(child)
            if isinstance(child, _HEADERS) and first is not None:
                wanted.add(first)
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                functions.append((child.lineno, child.end_lineno or child.lineno))
    shown: list[int | None] = []
    before = 0
    for number in sorted(line for line in wanted if line <= max(len(rows), 1)):
        gap = range(before + 1, number)
        crosses = any(start in gap and start not in wanted for start, _ in functions)
        ends = any(before <= end < number for _, end in functions) and before in range(1, number)
        if before and len(gap) <= _GAP and not crosses and not (ends and any(not rows[g - 1].strip() for g in gap)):
            shown.extend(gap)
        elif gap:
            shown.append(None)
        shown.append(number)
        before = number
    if before < len(rows):
        shown.append(None)
    return shown


_HEADERS = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.AsyncFor, ast.While, ast.If, ast.With,
    ast.AsyncWith,
)  # fmt: skip
