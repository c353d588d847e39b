"""Every error that plait itself raises: one clear sentence for a person, never a traceback of ours."""


class PlaitError(Exception):
    """Base of all errors of plait. `str(error)` is one sentence: what, where, what to do."""


class RecordingError(PlaitError):
    """A recording file cannot be read or written."""


class NotFoundError(PlaitError):
    """A step, node or value that was asked for is not in the recording."""
