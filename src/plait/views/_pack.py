"""Chunks of a page: a document as text that stands in HTML.

A chunk is the base64 of the zlib of: the length of a JSON text (four bytes, the lowest first), that text, and the bytes
of its long columns. In the text such a column is only where it lies, `{"type": "b", "at": 0, "count": 3}`: seven
million bytes of digits would take half a second to write, and half as long to read. `web/src/wire.ts` reads it.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from array import array
from typing import Any

_TYPES = ("b", "h", "i", "d")  # each lowest byte first; a double holds every whole number of a recording


def pack(document: Any) -> str:
    """JSON alone, as a chunk."""
    return pack_text(_json(document))


def pack_text(text: str) -> str:
    """The chunk of a JSON text that is written already."""
    return _chunk(text, b"")


def pack_columns(document: dict[str, Any]) -> str:
    """The chunk of a document of columns: every list of whole numbers one or two names deep is kept as bytes.

    >>> unpack(pack_columns({"nodes": {"op": [0, 1, 300]}, "durations": None, "text": ["mul"]}))
    {'nodes': {'op': [0, 1, 300]}, 'durations': None, 'text': ['mul']}
    """
    blob = bytearray()

    def moved(item: Any) -> Any:
        if type(item) is dict:
            return {name: moved(part) for name, part in item.items()}
        column = _narrow(item) if type(item) is list else None
        if column is None:
            return item
        place = {"type": column.typecode, "at": len(blob), "count": len(column)}
        if sys.byteorder == "big":
            column.byteswap()
        blob.extend(column.tobytes())
        return place

    text = _json(moved(document))
    return _chunk(text, bytes(blob))


def unpack(text: str) -> Any:
    """The document of a chunk, its columns as lists again."""
    data = zlib.decompress(base64.b64decode(text))
    end = 4 + int.from_bytes(data[:4], "little")
    blob = data[end:]

    def back(item: dict[str, Any]) -> Any:
        if item.keys() != {"type", "at", "count"}:
            return item
        column = array(item["type"])
        column.frombytes(blob[item["at"] : item["at"] + item["count"] * column.itemsize])
        if sys.byteorder == "big":
            column.byteswap()
        return [int(each) for each in column]

    return json.loads(data[4:end], object_hook=back if blob else None)


def _narrow(numbers: list[Any]) -> array[Any] | None:
    """The numbers in the smallest type that holds all of them; None if they are not whole numbers."""
    if not numbers or type(numbers[0]) is not int:
        return None
    for typecode in _TYPES:
        try:
            return array(typecode, numbers)
        except OverflowError:
            continue
        except TypeError:
            return None
    return None


def _json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _chunk(text: str, blob: bytes) -> str:
    written = text.encode()
    whole = len(written).to_bytes(4, "little") + written + blob
    return base64.b64encode(zlib.compress(whole, 6)).decode("ascii")
