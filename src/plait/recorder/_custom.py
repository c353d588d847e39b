"""How many gradients the backward of a custom Function gives, read from its source. Runs on the error path only."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import torch


def wrong_count(roots: list[torch.Tensor], error: BaseException) -> tuple[str, int, int, str, int] | None:
    """(function, gradients given, inputs, file, line of the return) of a custom Function above these roots that gives
    another number of gradients than it has inputs."""
    frames = set()
    trace = error.__traceback__
    while trace is not None:
        frames.add(trace.tb_frame.f_code)
        trace = trace.tb_next
    stack: list[Any] = [root.grad_fn for root in roots if root.grad_fn is not None]
    seen = set(stack)
    while stack and len(seen) < 20_000:
        node = stack.pop()
        made = getattr(node, "_forward_cls", None)
        wanted = getattr(node, "needs_input_grad", None)
        if made is not None and wanted is not None:
            code = getattr(made.backward, "__code__", None)
            if code is not None and code not in frames:  # else the error is the program's own
                found = _given(code, len(wanted))
                if found is not None:
                    return made.__name__, found[0], len(wanted), code.co_filename, found[1]
        for parent, _ in node.next_functions:
            if parent is not None and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return None


def _given(code: Any, wanted: int) -> tuple[int, int] | None:
    """(gradients given, line) of the first return that gives a wrong number; None where the source does not tell."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Return) or node.value is None:
            continue
        line = node.lineno + first - 1
        if isinstance(node.value, ast.Tuple):
            parts = node.value.elts
            if any(isinstance(each, ast.Starred) for each in parts):
                continue
            spare = parts[wanted:]
            all_none = all(isinstance(each, ast.Constant) and each.value is None for each in spare)
            if len(parts) < wanted or (spare and not all_none):
                return len(parts), line
        elif isinstance(node.value, (ast.BinOp, ast.UnaryOp)) and wanted > 1:
            return 1, line
    return None
