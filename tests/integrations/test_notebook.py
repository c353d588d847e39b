"""Recordings in the cells of a real kernel: what stands under the cell, and that IPython is no part of the graph."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed (pip install nbclient ipykernel)")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (pip install nbclient ipykernel)")
pytest.importorskip("ipykernel", reason="ipykernel is not installed (pip install nbclient ipykernel)")

CELLS = [
    "import torch, plait\nx = torch.ones(3, requires_grad=True)",
    "with plait.record() as rec:\n    (x * 2).sum().backward()\nrec",
    "%load_ext plait",
    "%%plait mine\nfor k in range(3):\n    y = x * k\nprint('said')\ny.sum().backward()",
    "mine.graph.legal(), sorted({region.label for region in mine.graph.regions if region.label})",
    "%%plait 1bad\nx",
    "%%plait\n1 / 0",
]


@pytest.fixture(scope="module")
def cells() -> list[list[Any]]:
    """The outputs of every cell."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    nbclient.NotebookClient(notebook, timeout=120, allow_errors=True).execute()
    return [cell.outputs for cell in notebook.cells]


def test_a_recording_shows_its_page_in_a_frame_of_its_own(cells: list[list[Any]]) -> None:
    (output,) = cells[1]
    frame = output.data["text/html"]
    assert frame.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts allow-downloads"' in frame
    page = html.unescape(re.findall(r'srcdoc="([^"]*)"', frame)[0])
    assert page.startswith("<!doctype html>") and "connect-src 'none'" in page
    assert output.data["text/plain"].startswith("<plait.Recording: 1 step")


def test_the_magic_records_the_cell_and_no_more(cells: list[list[Any]]) -> None:
    said, shown = cells[3]
    assert said.text == "said\n"
    assert shown.data["text/html"].startswith("<iframe")
    assert cells[4][0].data["text/plain"] == "([], ['<module>', 'for k in range(3)'])"


def test_a_wrong_name_is_one_sentence(cells: list[list[Any]]) -> None:
    (said,) = cells[5]
    assert "give the name" in said.text and "Traceback" not in said.text


def test_an_error_in_the_cell_is_the_error_of_the_cell(cells: list[list[Any]]) -> None:
    (error,) = cells[6]
    assert error.ename == "ZeroDivisionError" and not any("plait" in line for line in error.traceback)
