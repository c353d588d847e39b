"""Who may import whom, and that half of the library needs no torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import plait

SOURCE = Path(plait.__file__).parent
PACKAGES = {path.name for path in SOURCE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}

# package -> what of plait it may import; torch is allowed only where "torch" stands.
ALLOWED: dict[str, set[str]] = {
    "_errors": set(),
    "_frames": set(),
    "_settings": set(),
    "_watch": set(),
    "_torch": {"torch"},
    "graph": {"_errors", "_settings"},
    "recording": {"_errors", "_settings", "graph"},
    "decisions": {"_errors", "graph", "recording"},
    "views": {"_errors", "graph", "recording", "decisions"},
    "recorder": {"_errors", "_frames", "_settings", "_torch", "_watch", "graph", "recording", "torch"},
    "batching": {"_errors", "_settings", "_torch", "_watch", "graph", "torch"},
}


def imports_of(path: Path) -> set[str]:
    """The parts of plait, and "torch", that a file imports when it runs (imports for types aside)."""
    found: set[str] = set()
    stack: list[ast.AST] = [ast.parse(path.read_text())]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack += node.orelse
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "plait" else [f"plait.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "torch":
                found.add("torch")
            elif parts[0] == "plait" and len(parts) > 1 and parts[1] != "__version__":
                found.add(parts[1])
        stack += ast.iter_child_nodes(node)
    return found


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_follow_the_table(package: str) -> None:
    home = SOURCE / package
    files = sorted(home.rglob("*.py")) if home.is_dir() else [home.with_suffix(".py")]
    for path in files:
        extra = imports_of(path) - ALLOWED[package] - {package}
        assert not extra, f"{path.relative_to(SOURCE)} may not import {', '.join(sorted(extra))}"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light() -> None:
    out = run("import sys, plait; plait.load, plait.Graph; print([n for n in ('torch', 'numpy') if n in sys.modules])")
    assert out.strip() == "[]"


def test_every_public_name_is_there() -> None:
    for name in plait.__all__:
        assert getattr(plait, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = plait.nothing


def test_show_works_where_torch_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "run.plait"
    import torch

    with plait.record(path) as record:
        (torch.ones(3, requires_grad=True) * 2).sum().backward()
    record.close()
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from plait.__main__ import main\n"
        f"raise SystemExit(main(['show', {str(path)!r}, '--graph']))"
    )
    assert "mul" in run(code)
