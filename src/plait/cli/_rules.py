"""`plait rules`: the rules by category, or the page of one."""

from __future__ import annotations

from collections.abc import Sequence

import plait
from plait.cli._parser import Parser


def parser() -> Parser:
    """The options of `plait rules`."""
    made = Parser("plait rules", "List the rules, or print the page of one.")
    made.add_argument("name", nargs="?", metavar="NAME", help="a rule")
    return made


def main(words: Sequence[str]) -> int:
    """Run `plait rules`; the exit status."""
    name = parser().parse_args(words).name
    print(plait.rule_page(name) if name else plait.rule_list())
    return 0
