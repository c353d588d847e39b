"""`plait explain`: what is wrong with a run, in plain words with lines."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import plait
from plait.cli._parser import Parser, UsageError

_MAGIC = b"SQLite format 3\0"
_RANK = re.compile(r"\.rank\d+\.plait$")  # as `plait run` names the files of a job that torchrun started


EXAMPLES = """\
  plait explain run.plait
  plait explain train.py --epochs 1
  plait explain run.plait --select correctness,suspicious --format github
  plait explain run.rank*.plait"""


def parser() -> Parser:
    """The options of `plait explain`."""
    made = Parser(
        "plait explain",
        "Say what is wrong with a recorded run, and where. A SCRIPT is recorded first, with gradients measured"
        " (--values stats). Exit status: 0 nothing found, 1 findings, 2 could not run. The files of all ranks of one"
        " job are compared too. `plait rules` lists the rules; the comment"
        " `# plait: ignore[rule]` leaves a line out.",
        usage="plait explain [--select NAMES] [--ignore NAMES] [--format F] (FILE ... | SCRIPT [ARGS ...])",
        examples=EXAMPLES,
    )
    made.add_argument("--select", action="append", default=[], metavar="NAMES", help="only these rules or categories")
    made.add_argument(
        "--ignore", action="append", default=[], metavar="NAMES", help="all but these rules or categories"
    )
    made.add_argument("--format", choices=["text", "json", "github", "sarif"], default="text", help="default: text")
    made.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    made.add_argument(
        "what",
        nargs=argparse.REMAINDER,
        metavar="FILE | SCRIPT ARGS",
        help="recordings, or a program and its arguments",
    )
    return made


def main(words: Sequence[str]) -> int:
    """Run `plait explain`; the exit status."""
    options, what = _split(words)
    arguments = parser().parse_args(options)
    if not what:
        raise UsageError("explain: name a recording or a program: plait explain FILE or plait explain SCRIPT")
    select, ignore = _names(arguments.select), _names(arguments.ignore)
    status = 0
    if len(what) > 1 and all(_RANK.search(each) for each in what):
        findings = [plait.explain_ranks(what, select=select, ignore=ignore)]
    elif all(_is_recording(Path(each)) for each in what):
        findings = [plait.explain(each, select=select, ignore=ignore) for each in what]
    elif what[0].endswith(".plait"):
        findings = [plait.explain(each, select=select, ignore=ignore) for each in what]  # the error says what it is
    else:
        found, status = _of_script(what, select, ignore)
        findings = [found]
        if status:
            print(f"plait: {what[0]} failed (exit status {status}); only what it did before is explained",
                  file=sys.stderr)  # fmt: skip
    whole = plait.Findings(
        (each for some in findings for each in some), (p for some in findings for p in some.problems),
        (each for some in findings for each in some.remarks),
    )  # fmt: skip
    for problem in whole.problems:
        print(f"plait: {problem}", file=sys.stderr)
    text = whole.format(arguments.format)
    if text:
        print(text)
    return 1 if whole else 2 if status else 0


def _of_script(words: list[str], select: list[str], ignore: list[str]) -> tuple[plait.Findings, int]:
    """(the findings, the program's exit status) of a program that is recorded first.

    What it prints goes to stderr: stdout is for the answer.
    """
    from contextlib import redirect_stdout

    from plait.cli import _run

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "explain.plait"
        with redirect_stdout(sys.stderr):
            status = _run.main(["-q", "--values", "stats", "-o", str(file), *words])
        return plait.explain(file, select=select, ignore=ignore), status


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(options of this command, FILE or SCRIPT and what follows). Options may follow recordings, but not a script."""
    takes_value = {"--select", "--ignore", "--format"}
    options: list[str] = []
    what: list[str] = []
    index = 0
    while index < len(words):
        each = words[index]
        if each.startswith("-") and each != "-":
            step = 2 if each in takes_value else 1
            options += words[index : index + step]
            index += step
        elif _is_recording(Path(each)) or each.endswith(".plait"):
            what.append(each)
            index += 1
        else:
            return options, [*what, *words[index:]]
    return options, what


def _is_recording(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16) == _MAGIC
    except OSError:
        return False


def _names(given: list[str]) -> list[str]:
    return [name for each in given for name in each.replace(",", " ").split()]
