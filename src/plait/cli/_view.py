"""`plait view`: the page of a recording, one file to look at in a browser."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from plait import PlaitError, load, views
from plait.cli._parser import Parser, UsageError


def parser() -> Parser:
    """The options of `plait view`."""
    made = Parser(
        prog="plait view",
        description="Write the page of a recording: its steps, the annotated source, the folded graph of every step,"
        " and what differs between two. One file, nothing is loaded from anywhere.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  plait view run.plait --open\n  plait view run.plait --step 12 -o step.html\n"
        "  plait view run.plait --serve   (for recordings too large for one page)",
    )
    made.add_argument("file", metavar="FILE", help="a recording, as `plait run` writes it")
    made.add_argument("-o", "--output", type=Path, metavar="PAGE", help="the page (default: the name of FILE, .html)")
    made.add_argument("-f", "--force", action="store_true", help="overwrite PAGE")
    made.add_argument("--open", action="store_true", help="open it in the browser")
    made.add_argument("--step", type=int, metavar="N", help="the step to begin with (-1 is the last)")
    made.add_argument(
        "--serve", action="store_true", help="write no file: hand the page out on this machine until Ctrl-C"
    )
    made.add_argument("--port", type=int, default=0, metavar="P", help="with --serve: the port (default: a free one)")
    return made


def main(argv: Sequence[str]) -> int:
    """Run `plait view`; the exit status."""
    arguments = parser().parse_args(argv)
    if arguments.serve and arguments.output is not None:
        raise UsageError("--serve writes no file; leave out -o")
    with load(arguments.file) as recording:
        if arguments.serve:
            return views.serve(recording, step=arguments.step, port=arguments.port, opened=arguments.open)
        output = arguments.output or Path(f"{Path(arguments.file).stem}.html")
        if arguments.output is not None and output.exists() and not arguments.force:
            raise PlaitError(f"{output}: this file is there already; give -f to overwrite it or another name")
        if arguments.output is None and not views.is_page(output):
            raise PlaitError(f"{output}: the file exists and is no page of plait; name another with -o")
        text = views.page(recording, step=arguments.step)
    views.write_page(output, text)
    print(output)
    if arguments.open:
        webbrowser.open(output.absolute().as_uri())
    else:
        print(f"plait: open it in a browser, or add --open ({len(text) / 1e6:.1f} MB)", file=sys.stderr)
    return 0
