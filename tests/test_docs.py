"""The Python blocks of a page run, one after the other, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("page", ["batch"])
def test_blocks_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = DOCS / f"{page}.md"
    text = path.read_text()
    torch.manual_seed(0)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        above = text.count("\n", 0, block.start(1))
        exec(compile("\n" * above + block[1], str(path), "exec"), names)
    if page == "batch":
        assert "GRUCell" in capsys.readouterr().out
