"""The parser of every command: a mistake is one sentence, as all errors of plait are."""

from __future__ import annotations

import argparse
from textwrap import fill
from types import ModuleType
from typing import NoReturn

from plait import PlaitError


class UsageError(PlaitError):
    """The command line cannot be understood."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that raises `UsageError` with one sentence instead of printing the usage and exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise what was wrong, and where to read on."""
        raise UsageError(f"{message}; see `{self.prog} --help`")


def parse(command: str, module: ModuleType, words: list[str]) -> argparse.Namespace:
    """The options of a command. Its module has `add_arguments`, may have DESCRIPTION and EXAMPLES, and may have
    `split_arguments` where not all words are its own."""
    examples = getattr(module, "EXAMPLES", None)
    parser = Parser(
        prog=f"plait {command}",
        description=fill(getattr(module, "DESCRIPTION", ""), 79),
        epilog=None if examples is None else f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    split = getattr(module, "split_arguments", None)
    return parser.parse_args(words if split is None else split(words))
