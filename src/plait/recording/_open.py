"""Opens a recording, or says in one sentence why that cannot be."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from plait._errors import RecordingError
from plait.recording._reader import Recording, broken
from plait.recording._schema import APPLICATION_ID, FORMAT


def load(path: str | Path) -> Recording:
    """The recording in this file.

    Raises:
        RecordingError: the file is missing, no recording, damaged, of a newer format, or locked.
    """
    path = Path(path)
    if not path.exists():
        raise RecordingError(f"{path}: there is no such file")
    if path.is_dir():
        raise RecordingError(f"{path}: this is a folder, not a recording")
    with path.open("rb") as file:
        head = file.read(16)
    if head != b"SQLite format 3\0":
        what = "is empty" if not head else "is no recording of plait"
        raise RecordingError(f"{path}: the file {what}; `plait run` writes recordings (NAME.plait)")
    connection = None
    try:
        connection = _open(path)
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise broken(str(path), error) from None
    if application != APPLICATION_ID:
        connection.close()
        raise RecordingError(f"{path}: an SQLite database, but no recording of plait")
    if version > FORMAT:
        connection.close()
        raise RecordingError(
            f"{path}: written in format {version} by a newer plait; this one reads formats up to {FORMAT}."
            " Upgrade plait to read it"
        )
    return Recording(connection, str(path))


def _open(path: Path) -> sqlite3.Connection:
    uri = path.resolve().as_uri()
    connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=3.0, check_same_thread=False)
    try:
        connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        # A program that was killed while it wrote leaves a journal; SQLite undoes the half-written part when the
        # file is opened for writing once.
        if not path.with_name(path.name + "-journal").exists():
            raise
        with_undo = sqlite3.connect(str(path), timeout=3.0)
        with_undo.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        with_undo.close()
        connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=3.0, check_same_thread=False)
    return connection
