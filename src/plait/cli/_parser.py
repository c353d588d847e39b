"""The parser of every command: a mistake is one sentence, as all errors of plait are."""

from __future__ import annotations

import argparse
from textwrap import fill
from typing import NoReturn

from plait import PlaitError


class UsageError(PlaitError):
    """The command line cannot be understood."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that raises `UsageError` with one sentence instead of printing the usage and exiting."""

    def __init__(self, prog: str, description: str, usage: str | None = None, examples: str | None = None) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=fill(description, 79),
            epilog=None if examples is None else f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Raise what was wrong, and where to read on."""
        raise UsageError(f"{message}; see `{self.prog} --help`")
