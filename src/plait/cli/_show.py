"""`plait show`: what a recording holds, as text or as one JSON document."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from plait import load, views
from plait.cli._parser import Parser, UsageError

DESCRIPTION = (
    "Print what a recording holds: a summary, the annotated source, the distinct graphs, the decisions, and a small"
    " graph with the numbers of its backward walk."
)
EXAMPLES = """\
  plait show run.plait
  plait show run.plait --step -1
  plait show run.plait --json | python -m json.tool"""


def _parser() -> Parser:
    parser = Parser("plait show", DESCRIPTION, examples=EXAMPLES)
    parser.add_argument("file", metavar="FILE", help="a recording, as `plait run` writes it")
    parser.add_argument("--step", type=int, metavar="N", help="one step: its numbers and its graph (-1 is the last)")
    parser.add_argument("--source", action="store_true", help="only the annotated source")
    parser.add_argument(
        "--graph", action="store_true", help="only the graph, loops folded, of the last step or of --step"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document; with --step or --graph the graph")
    return parser


def main(words: Sequence[str]) -> int:
    """Print it; the exit status."""
    options = _parser().parse_args(words)
    one_step = options.graph or options.step is not None
    if options.source and one_step:
        raise UsageError("--source is about the whole run; give it without --graph and --step")
    gc.disable()  # a long run is a hundred thousand small tuples without cycles, and this process ends soon
    with load(options.file) as recording:
        colour, width = views.colours(sys.stdout), views.width(sys.stdout)
        if options.json:
            text = views.graph_json(recording, options.step) if one_step else views.show_json(recording)
        elif options.source:
            text = views.show_source(recording, colour=colour, width=width)
        elif one_step:
            text = views.show_graph(recording, options.step, colour=colour, width=width)
        else:
            text = views.show(recording, colour=colour, width=width)
    print(views.fit(text, sys.stdout.encoding))
    return 0
