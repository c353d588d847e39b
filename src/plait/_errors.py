"""Every error that plait itself raises: one clear sentence for a person, never a traceback of ours."""

import contextlib
import sys


class PlaitError(Exception):
    """Base of all errors of plait. `str(error)` is one sentence: what, where, what to do."""


class RecordingError(PlaitError):
    """A recording file cannot be read or written."""


class NotFoundError(PlaitError):
    """A step, node or value that was asked for is not in the recording."""


def say(text: str) -> None:
    """Print on stderr, if the program has left one; never an error."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)
