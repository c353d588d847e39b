"""What torch.compile did in a run, as the recording keeps it."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass

from plait.graph._source import SourceIndex
from plait.rules._case import Run


@dataclass(frozen=True, slots=True)
class Compiled:
    """One function: where it stands, how often it was compiled, and the line at which the compiler gave up (0: none).

    `limit`: the compiler has refused to compile it once more. `reason`: PyTorch's words on the last compilation."""

    function: str
    file: str
    line: int
    compiled: int = 0
    limit: bool = False
    failed_file: str = ""
    failed_line: int = 0
    reason: str = ""


def compiled(run: Run) -> list[Compiled]:
    """The functions of the program that were handed to the compiler."""
    return [Compiled(**each) for each in json.loads(run.recording.meta.get("compiled", "[]"))]


def source_of(run: Run, file: str) -> SourceIndex:
    """The source of a file, empty where the recording has none."""
    return SourceIndex(run.recording.sources.get(file, ""))


def sized_loop(run: Run, each: Compiled) -> tuple[int, str] | None:
    """(line, header) of the first loop in a function whose number of rounds depends on a size."""
    try:
        tree = ast.parse(run.recording.sources.get(each.file, ""))
    except SyntaxError:
        return None
    functions = (n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))
    for function in functions:
        start = min([function.lineno, *(d.lineno for d in getattr(function, "decorator_list", []))])
        if start != each.line and function.lineno != each.line:
            continue
        for node in ast.walk(function):
            if isinstance(node, (ast.For, ast.While)):
                header = node.iter if isinstance(node, ast.For) else node.test
                if _has_size(header):
                    return node.lineno, ast.unparse(header)
    return None


def _has_size(header: ast.expr) -> bool:
    """Whether a size is read in a header, or the parts of a tensor are gone through."""
    for node in ast.walk(header):
        if isinstance(node, ast.Attribute) and node.attr in ("shape", "size", "numel", "unbind", "split", "chunk"):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
            return True
    return False
