"""The command `plait`, and `python -m plait`: finds the command, runs it, turns errors into one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

COMMANDS = {
    "run": ("plait.cli._run", "run a program unchanged and record the graphs it builds"),
    "show": ("plait.cli._show", "print what a recording holds"),
    "check": ("plait.cli._check", "run a model again in other company and say what changes"),
    "view": ("plait.cli._view", "write the page to look at: run, source, graph, differences"),
    "diff": ("plait.cli._diff", "show where two runs, steps or ranks part"),
    "explain": ("plait.cli._explain", "say what is wrong with a run, and where"),
    "rules": ("plait.cli._rules", "list the rules that explain knows, or print the page of one"),
    "export": ("plait.cli._export", "write a graph as dot, mermaid, json or a Perfetto trace"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status: 0 done, 2 could not run (the sentence is on stderr)."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        if words[1:] and words[1] in COMMANDS:
            return main([words[1], "--help"])
        return _answer(_help())
    if words[0] in ("-V", "--version"):
        from plait import __version__

        return _answer(f"plait {__version__}")
    if words[0] not in COMMANDS:
        near = get_close_matches(words[0], COMMANDS, 1)
        hint = f"did you mean `plait {near[0]}`?" if near else "`plait --help` lists the commands"
        return _complain(f"there is no command {words[0]!r}; {hint}")
    return _run(words[0], words[1:])


def _run(command: str, words: list[str]) -> int:
    from plait import PlaitError

    if command != "run":  # whose standard output belongs to the program that it runs
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        status = import_module(COMMANDS[command][0]).main(words)
        if command != "run":
            sys.stdout.flush()
    except PlaitError as error:
        return _complain(str(error))
    except BrokenPipeError:
        if command == "run":
            raise
        return _reader_left()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if command == "run" or os.environ.get("PLAIT_TRACEBACK"):
            raise
        return _complain(
            f"a fault of plait itself, please report it ({type(error).__name__}: {error});"
            " PLAIT_TRACEBACK=1 shows where"
        )
    except SystemExit as end:  # --help has been printed, or the recorded program ended itself
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    return int(status)


def _answer(text: str) -> int:
    try:
        print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_left()
    return 0


def _reader_left() -> int:
    """Whoever read our output has seen enough (`plait show run.plait | head`): that is no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _complain(sentence: str) -> int:
    print(f"plait: {sentence}", file=sys.stderr)
    return 2


def _help() -> str:
    wide = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{wide}}  {text}" for name, (_, text) in COMMANDS.items())
    return f"""plait records, explains and batches the dynamic computation graphs of PyTorch programs.

usage: plait COMMAND ...

{commands}

  plait COMMAND --help   the options of a command
  plait --version        the version

Begin with:  plait run train.py"""


def command() -> None:
    """What `plait` is in a shell: `main`, and the end of the process.

    Taking a graph of 100,000 nodes apart, object by object, would be a tenth of all the time. Not where a program of
    somebody else may have run, which can have things to do at its end.
    """
    only_reads = sys.argv[1:2] in (["show"], ["view"], ["diff"], ["export"], ["rules"])  # a program may change sys.argv
    status = main()
    if only_reads:
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    command()
