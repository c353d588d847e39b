"""The page: one HTML file that holds everything and asks for nothing.

Its policy forbids every connection; scripts and styles are the built ones and no others, so a name in the recording
that looks like markup stays text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import lru_cache
from html import escape
from importlib import resources
from pathlib import Path

from plait._errors import PlaitError
from plait.graph._marks import Contrast, Mark
from plait.graph._uncollected import uncollected
from plait.recording import Recording
from plait.views._batch import batch_chunk, batch_list
from plait.views._pack import pack, pack_columns, pack_text
from plait.views._page import NODE_BUDGET, Pages

MARK = '<meta name="generator" content="plait">'
SIZE_LIMIT = 30_000_000  # bytes of a page; beyond it, rarer graphs are left out


def page(
    recording: Recording, *, marks: Iterable[Mark] = (), step: int | None = None, budget: int = NODE_BUDGET,
    contrast: Contrast | None = None,
) -> str:  # fmt: skip
    """The page of a recording as one HTML text.

    `step` is the one it opens with. `marks` are remarks of others at lines of the source, `contrast` a comparison
    with other runs (see `plait.graph`).
    """
    with uncollected():
        pages = Pages(recording, marks, step, contrast)
        chunks: dict[str, str] = {}
        carried = []
        room = SIZE_LIMIT
        for graph in pages.graphs(budget):
            if room < 0:
                break
            columns = pages.graph(graph)
            if columns is None:
                continue
            text = chunks[f"g{graph}"] = pack_columns(columns)
            carried.append(graph)
            room -= len(text)
        for number in pages.read_chunks:
            if room < 0:
                break
            chunks[f"r{number}"] = pack_text(pages.reads(number))
            room -= len(chunks[f"r{number}"])
        for batch in [each["id"] for each in batch_list(recording) if each["detail"]]:
            if room < 0:
                break
            chunks[f"b{batch}"] = pack(batch_chunk(recording, batch))
            room -= len(chunks[f"b{batch}"])
        if stats := pages.stats():
            chunks["stats"] = pack(stats)
        chunks["head"] = pack(pages.head(carried))
    title = recording.meta.get("program") or Path(recording.path or "run").stem
    return html(title, chunks)


def serve(
    recording: Recording, marks: Iterable[Mark] = (), step: int | None = None, port: int = 0, opened: bool = False,
    contrast: Contrast | None = None,
) -> int:  # fmt: skip
    """Hand the page out on this machine until Ctrl-C, its graphs as they are asked for; the exit status."""
    from plait.views._serve import run  # a web server, which nothing else needs

    return run(recording, marks, step, port, opened, contrast)


def html(title: str, chunks: dict[str, str], *, connect: bool = False) -> str:
    """The frame around the chunks. `connect`: the page may ask its own server for more."""
    script, style = bundle()
    reach = "'self'" if connect else "'none'"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; worker-src blob:;"
        f" img-src data: blob:; connect-src {reach}; base-uri 'none'; form-action 'none'"
    )
    data = "\n".join(
        f'<script type="application/octet-stream" id="chunk-{name}">{text}</script>' for name, text in chunks.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
{MARK}
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} - plait</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="plait"><noscript>This page needs JavaScript to draw; it loads nothing from anywhere.</noscript></div>
{data}
<script type="module">{script}</script>
</body>
</html>
"""


@lru_cache(maxsize=1)
def bundle() -> tuple[str, str]:
    """The built script and style (see `web/`)."""
    static = resources.files("plait.views") / "static"
    try:
        script = (static / "page.js").read_text(encoding="utf-8")
        style = (static / "page.css").read_text(encoding="utf-8")
    except OSError:
        raise PlaitError(
            "the built page is missing from this installation; run `npm ci && npm run build` in web/"
        ) from None
    return script, style


def write_page(path: Path, text: str) -> None:
    """Put a page into a file.

    Raises:
        PlaitError: the file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise PlaitError(f"{path}: cannot be written ({error.strerror})") from None


def is_page(path: Path) -> bool:
    """Whether a page may be written there by its own default name: nothing is there, or an earlier page."""
    if not path.exists():
        return True
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return MARK.encode() in file.read(2000)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def chunk_text(pages: Pages, name: str) -> str | None:
    """One chunk by its name, packed; None if there is no such chunk. What `--serve` hands out."""
    with uncollected():
        if name == "stats":
            return pack(pages.stats())
        kind, digits = name[:1], name[1:]
        if not digits.isdecimal():
            return None
        if kind == "r":
            return pack_text(pages.reads(int(digits)))
        if kind == "b":
            return pack(batch_chunk(pages.recording, int(digits)))
        if kind == "g" and int(digits) in pages.survey.by_graph:
            columns = pages.graph(int(digits))
            return None if columns is None else pack_columns(columns)
    return None


__all__ = ["chunk_text", "html", "is_page", "page", "serve", "write_page"]
