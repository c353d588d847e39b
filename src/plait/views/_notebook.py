"""The page in a cell of a notebook: in a frame of its own, so that neither side's styles or scripts reach the other."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterable
from html import escape
from pathlib import Path

from plait.graph._marks import Contrast, Mark
from plait.recording import Recording
from plait.views._html import page, serve, write_page

CELL_BUDGET = 30_000  # nodes: a notebook keeps its outputs in its own file
HEIGHT = 620


class Page:
    """A page that is not written yet: `save` it, `open` it, or leave it as the last line of a cell.

    >>> plait.view(rec)                        # doctest: +SKIP
    >>> plait.view(rec).save("run.html")       # doctest: +SKIP
    """

    def __init__(
        self, recording: Recording, marks: Iterable[Mark] = (), step: int | None = None,
        contrast: Contrast | None = None,
    ) -> None:  # fmt: skip
        self._recording = recording
        self._marks = tuple(marks)
        self._step = step
        self._contrast = contrast

    def html(self) -> str:
        """The whole page as one HTML text."""
        return page(self._recording, marks=self._marks, step=self._step, contrast=self._contrast)

    def save(self, path: str | Path) -> Path:
        """Write the page, over an earlier file of that name; where it is."""
        target = Path(path)
        write_page(target, self.html())
        return target

    def open(self, path: str | Path = "run.html") -> Path:
        """Write the page and open it in the browser; where it is."""
        target = self.save(path)
        webbrowser.open(target.absolute().as_uri())
        return target

    def serve(self, port: int = 0, opened: bool = False) -> int:
        """Hand the page out on this machine until Ctrl-C, its graphs as they are asked for."""
        return serve(self._recording, self._marks, self._step, port, opened, self._contrast)

    def __repr__(self) -> str:
        return f"<plait page of {self._recording!r}: .open() shows it, .save(path) writes it>"

    def _repr_html_(self) -> str:
        return cell(self._recording, self._marks, self._step, self._contrast)


def cell(
    recording: Recording, marks: Iterable[Mark] = (), step: int | None = None, contrast: Contrast | None = None
) -> str:
    """The page inside a frame, for the output of a cell."""
    text = page(recording, marks=marks, step=step, budget=CELL_BUDGET, contrast=contrast)
    return (
        f'<iframe srcdoc="{escape(text, quote=True)}" sandbox="allow-scripts allow-downloads"'
        f' title="plait: the recorded run" loading="lazy" width="100%" height="{HEIGHT}"'
        ' style="border:1px solid #8884;border-radius:8px"></iframe>'
    )
