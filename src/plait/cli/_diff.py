"""`plait diff`: where two runs, two steps or the ranks of one job part."""

from __future__ import annotations

from collections.abc import Sequence

from plait import diff, diffs
from plait.cli._parser import Parser

DESCRIPTION = (
    "Compare two recordings, two steps or the ranks of one job: first the decision or operation at which they part,"
    " with its line and values, then what only one of them has and what changed. The exit status is 0 if they are"
    " equal, 1 if they differ, 2 if they could not be compared."
)
EXAMPLES = """\
  plait diff before.plait after.plait
  plait diff run.plait@3 run.plait@-1
  plait diff run.rank*.plait
  plait diff a.plait b.plait --json | python -m json.tool"""


def _parser() -> Parser:
    parser = Parser("plait diff", DESCRIPTION, examples=EXAMPLES)
    parser.add_argument(
        "files", metavar="A B", nargs="+", help="recordings; FILE@STEP is one step of a recording (-1 is the last)"
    )
    parser.add_argument("--ranks", action="store_true", help="the files are the ranks of one job, whatever their names")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return parser


def main(words: Sequence[str]) -> int:
    """Compare; the exit status."""
    parser = _parser()
    options = parser.parse_args(words)
    if len(options.files) < 2:
        parser.error("name two recordings to compare: plait diff A B")
    ranks = options.ranks or diffs.are_ranks(options.files)
    if len(options.files) > 2 and not ranks:
        parser.error("more than two recordings can be compared only as the ranks of one job (--ranks)")
    found = diffs.diff_ranks(options.files) if ranks else diff(*options.files)
    print(found.to_json() if options.json else found)
    return 1 if found else 0
