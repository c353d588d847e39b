"""`plait export`: the graph of a step for other programs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from plait import PlaitError, load, views
from plait.cli._parser import Parser


def parser() -> Parser:
    """The options of `plait export`."""
    made = Parser(
        prog="plait export",
        description="Write the graph of one step for another program.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  plait export run.plait --to mermaid -o graph.mmd\n"
        "  plait export run.plait --to dot | dot -Tsvg > graph.svg\n"
        "  plait export run.plait --to perfetto --step 3 -o trace.json   (open in ui.perfetto.dev)",
    )
    made.add_argument("file", metavar="FILE", help="a recording, as `plait run` writes it")
    made.add_argument(
        "--to", required=True, choices=tuple(views.EXPORTS), help="dot and mermaid fold loops; json holds every node;"
        " perfetto has the times"
    )  # fmt: skip
    made.add_argument("--step", type=int, metavar="N", help="which step (-1 is the last); by default the last that ran"
                      " a model or a backward pass")  # fmt: skip
    made.add_argument("-o", "--output", type=Path, metavar="OUT", help="write to this file instead of standard output")
    made.add_argument("-f", "--force", action="store_true", help="overwrite OUT")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `plait export`; the exit status."""
    arguments = parser().parse_args(argv)
    output: Path | None = arguments.output
    if output is not None and output.exists() and not arguments.force:
        raise PlaitError(f"{output}: this file is there already; give -f to overwrite it or another name")
    with load(arguments.file) as recording:
        text = views.export(recording, arguments.to, arguments.step)
    if output is None:
        print(text)
        return 0
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise PlaitError(f"{output}: cannot be written ({error.strerror})") from None
    return 0
