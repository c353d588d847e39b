"""`plait view`: the page of a recording, one file to look at in a browser."""

from __future__ import annotations

import gc
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from plait import PlaitError, load, view, views
from plait.cli._parser import Parser, UsageError

DESCRIPTION = (
    "Write the page of a recording: its steps, the annotated source, the folded graph of every step, and what differs"
    " between two. It is one file and loads nothing from anywhere."
)
EXAMPLES = """\
  plait view run.plait --open
  plait view run.plait --step 12 -o step.html
  plait view before.plait after.plait --open
  plait view run.plait --serve   (for recordings too large for one page)"""


def _parser() -> Parser:
    parser = Parser("plait view", DESCRIPTION, examples=EXAMPLES)
    parser.add_argument(
        "files", metavar="FILE", nargs="+",
        help="a recording, as `plait run` writes it; with a second one, or the ranks of one job, the page begins with"
        " where they part",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, metavar="PAGE", help="the page (default: FILE's name, .html)")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite PAGE")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    parser.add_argument("--step", type=int, metavar="N", help="the step to begin with (-1 is the last)")
    parser.add_argument(
        "--serve", action="store_true", help="write no file: hand the page out on this machine until Ctrl-C"
    )
    parser.add_argument("--port", type=int, default=0, metavar="P", help="with --serve: the port (default: a free one)")
    return parser


def main(words: Sequence[str]) -> int:
    """Write the page, or serve it; the exit status."""
    options = _parser().parse_args(words)
    if options.serve and options.output is not None:
        raise UsageError("--serve writes no file; leave out -o")
    if options.port and not options.serve:
        raise UsageError("--port goes with --serve")
    # A large graph is a million small objects without cycles; this process ends soon, so nothing looks for any.
    gc.disable()
    with ExitStack() as stack:
        recordings = [stack.enter_context(load(each)) for each in options.files]
        if options.serve:
            return view(*recordings, step=options.step).serve(options.port, options.open)
        output: Path = options.output or Path(f"{Path(options.files[0]).stem}.html")
        if not options.force and options.output is not None and output.exists():
            raise PlaitError(f"{output}: this file is there already; give -f to overwrite it or another name")
        if options.output is None and not views.is_page(output):
            raise PlaitError(f"{output}: the file exists and is no page of plait; name another with -o")
        text = view(*recordings, step=options.step).html()
    views.write_page(output, text)
    print(output)
    if options.open:
        webbrowser.open(output.absolute().as_uri())
    else:
        print(f"plait: {len(text) / 1e6:.1f} MB; open it in a browser, or add --open", file=sys.stderr)
    return 0
