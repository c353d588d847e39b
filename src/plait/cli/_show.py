"""`plait show`: what a recording holds, as text or as one JSON document."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from plait import load, views
from plait.cli._parser import Parser, UsageError


def parser() -> Parser:
    """The options of `plait show`."""
    made = Parser(
        prog="plait show",
        description="Print what a recording holds: a summary, the annotated source, the distinct graphs, the decisions,"
        " and a small graph with the numbers of its backward walk.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  plait show run.plait\n  plait show run.plait --step -1\n"
        "  plait show run.plait --json | python -m json.tool",
    )
    made.add_argument("file", metavar="FILE", help="a recording, as `plait run` writes it")
    made.add_argument("--step", type=int, metavar="N", help="one step: its numbers and its graph (-1 is the last)")
    made.add_argument("--source", action="store_true", help="only the annotated source")
    made.add_argument(
        "--graph", action="store_true", help="only the graph, loops folded, of the last step or of --step"
    )
    made.add_argument("--json", action="store_true", help="one JSON document; with --step or --graph the graph")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `plait show`; the exit status."""
    arguments = parser().parse_args(argv)
    if arguments.source and (arguments.graph or arguments.step is not None):
        raise UsageError("--source is about the whole run; give it without --graph and --step")
    with load(arguments.file) as recording:
        colour, width = views.colours(sys.stdout), views.width(sys.stdout)
        if arguments.json and (arguments.graph or arguments.step is not None):
            text = views.graph_json(recording, arguments.step)
        elif arguments.json:
            text = views.show_json(recording)
        elif arguments.source:
            text = views.show_source(recording, colour=colour, width=width)
        elif arguments.graph or arguments.step is not None:
            text = views.show_graph(recording, arguments.step, colour=colour, width=width)
        else:
            text = views.show(recording, colour=colour, width=width)
    print(views.fit(text, sys.stdout.encoding))
    return 0
