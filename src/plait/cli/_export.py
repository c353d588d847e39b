"""`plait export`: the graph of a step for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plait import PlaitError, load, views
from plait.cli._parser import Parser

DESCRIPTION = "Write the graph of one step for another program."
EXAMPLES = """\
  plait export run.plait --to mermaid -o graph.mmd
  plait export run.plait --to dot | dot -Tsvg > graph.svg
  plait export run.plait --to perfetto --step 3 -o trace.json   (open it in ui.perfetto.dev)"""


def _parser() -> Parser:
    parser = Parser("plait export", DESCRIPTION, examples=EXAMPLES)
    parser.add_argument("file", metavar="FILE", help="a recording, as `plait run` writes it")
    parser.add_argument(
        "--to", required=True, choices=views.EXPORTS,
        help="dot and mermaid fold loops; json holds every node; perfetto has the times",
    )  # fmt: skip
    parser.add_argument(
        "--step", type=int, metavar="N",
        help="which step (-1 is the last); by default the last that ran a model or a backward pass",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="write to this file instead of standard output"
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite OUT")
    return parser


def main(words: Sequence[str]) -> int:
    """Write it; the exit status."""
    options = _parser().parse_args(words)
    output: Path | None = options.output
    if output is not None and output.exists() and not options.force:
        raise PlaitError(f"{output}: this file is there already; give -f to overwrite it or another name")
    with load(options.file) as recording:
        text = views.export(recording, options.to, options.step)
    if output is None:
        print(text)
        return 0
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise PlaitError(f"{output}: cannot be written ({error.strerror})") from None
    return 0
