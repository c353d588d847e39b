"""Reads the source around a site: its expression, the name it is given, its loops and tests.

Python keeps for every instruction the range of the expression it came from; matched with the syntax tree, that range
names the loop, the `if` and the assignment. Where the ranges or the source are missing the answer is empty,
never a guess.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any, NamedTuple

from plait.graph._site import Branch, Loop, Test

_COMPREHENSION_FRAMES = {"<listcomp>": ast.ListComp, "<setcomp>": ast.SetComp, "<dictcomp>": ast.DictComp,
                         "<genexpr>": ast.GeneratorExp}  # fmt: skip
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
_TEST_KINDS: dict[type, str] = {
    ast.If: "if", ast.While: "while", ast.IfExp: "conditional", ast.Assert: "assert",
}  # fmt: skip
_LONGEST = 160


class SourceFacts(NamedTuple):
    """What the source says about one range of it."""

    expression: str = ""
    target: str | None = None
    loops: tuple[Loop, ...] = ()
    branches: tuple[Branch, ...] = ()
    test: Test | None = None
    header: bool = False


class SourceIndex:
    """The syntax tree of one file, with a way from a range of the text to the node that stands there.

    >>> index = SourceIndex("while h.sum() > 0:\\n    h = h - 1\\n")
    >>> facts = index.facts(2, 2, 8, 13)
    >>> facts.expression, facts.target, facts.loops[0].header
    ('h - 1', 'h', 'while h.sum() > 0')
    """

    def __init__(self, text: str) -> None:
        self.lines = [line.encode() for line in text.splitlines()]
        self._parents: dict[ast.AST, ast.AST] = {}
        self._at: dict[tuple[int, int, int, int], ast.AST] = {}
        try:
            tree: ast.AST | None = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            tree = None
        self._tree = tree
        stack = [tree] if tree is not None else []
        while stack:
            node = stack.pop()
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
                stack.append(child)
                if (place := _range(child)) is not None and not isinstance(child, ast.Expr):
                    self._at[place] = child

    def facts(
        self, line: int, end_line: int, column: int | None, end_column: int | None,
        opcode: str = "", function: str = "",
    ) -> SourceFacts:  # fmt: skip
        """What stands at this range; `opcode` and `function` are of the instruction and the code object there."""
        if column is None or end_column is None:
            return SourceFacts()
        expression = self.text(line, end_line, column, end_column)
        node = self._node(line, end_line, column, end_column)
        if node is None:
            return SourceFacts(expression)
        part = False
        if "JUMP" in opcode and isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            # Python 3.11 gives the jump of `if call():` the range of the whole statement: it is the test that is meant.
            node = node.test
            while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                node = node.operand
            expression, part = self._segment(node), isinstance(node, ast.BoolOp)
        loops, branches, header = self._surroundings(node, opcode, function)
        test = self._test(node)
        if test is not None and part:  # one of several truths, nobody knows which
            test = replace(test, role="part")
        return SourceFacts(expression, self._target(node), loops, branches, test, header)

    def line_facts(self, line: int) -> SourceFacts:
        """What stands in a line of which no column is known: the test that is asked there, else the statement."""
        if self._tree is None:
            return SourceFacts()
        found: ast.AST | None = None
        asked = False
        for node in ast.walk(self._tree):
            if isinstance(node, (ast.stmt, ast.IfExp)) and node.lineno <= line <= (node.end_lineno or node.lineno):
                test = getattr(node, "test", None)
                if test is not None and test.lineno <= line <= test.end_lineno:
                    found, asked = test, True
                elif not asked and (node.lineno == line or found is None):
                    found = node
        place = None if found is None else _range(found)
        return SourceFacts() if place is None else self.facts(place[0], place[2], place[1], place[3])

    def text(self, line: int, end_line: int, column: int, end_column: int) -> str:
        """The text of a range on one line of its own, shortened when it is very long."""
        rows = self.lines[line - 1 : end_line]
        if not rows:
            return ""
        if len(rows) == 1:
            rows = [rows[0][column:end_column]]
        else:
            rows = [rows[0][column:], *rows[1:-1], rows[-1][:end_column]]
        joined = " ".join(row.decode(errors="replace").strip() for row in rows)
        return joined if len(joined) <= _LONGEST else joined[: _LONGEST - 3] + "..."

    def _node(self, line: int, end_line: int, column: int, end_column: int) -> ast.AST | None:
        exact = self._at.get((line, column, end_line, end_column))
        if exact is not None or self._tree is None:
            return exact
        inside, start, end = self._tree, (line, column), (end_line, end_column)
        while True:  # walk down to the smallest node around the range
            for child in ast.iter_child_nodes(inside):
                place = _range(child)
                if place is not None and place[:2] <= start and end <= place[2:]:
                    inside = child
                    break
            else:
                return inside if _range(inside) is not None else None

    def _segment(self, node: ast.AST) -> str:
        place = _range(node)
        return "" if place is None else self.text(place[0], place[2], place[1], place[3])

    def _surroundings(
        self, node: ast.AST, opcode: str, function: str
    ) -> tuple[tuple[Loop, ...], tuple[Branch, ...], bool]:
        loops: list[Loop] = []
        branches: list[Branch] = []
        header = False
        boundary = _COMPREHENSION_FRAMES.get(function)
        child: ast.AST = node
        if opcode == "FOR_ITER":  # its range is the iterable, but it runs in every iteration
            owner = self._parents.get(node)
            if isinstance(owner, (ast.For, ast.AsyncFor)) and owner.iter is node:
                loops.append(self._loop(owner))
                header, child = True, owner
        while (parent := self._parents.get(child)) is not None:
            if isinstance(parent, (ast.For, ast.AsyncFor)):
                if child is not parent.iter and child not in parent.orelse:
                    loops.append(self._loop(parent))
            elif isinstance(parent, ast.While):
                if child is parent.test:
                    header = header or not loops
                    loops.append(self._loop(parent))
                elif child in parent.body:
                    loops.append(self._loop(parent))
                    branches.append(Branch(parent.lineno, parent.col_offset, True))
            elif isinstance(parent, ast.If) and child is not parent.test:
                branches.append(Branch(parent.lineno, parent.col_offset, child in parent.body))
            elif isinstance(parent, ast.IfExp) and child is not parent.test:
                branches.append(Branch(parent.lineno, parent.col_offset, child is parent.body))
            elif isinstance(parent, _COMPREHENSIONS):
                first = parent.generators[0]
                if child is not first or not self._in_first_iterable(node, parent):
                    loops.append(self._loop(parent))
                if boundary is not None and type(parent) is boundary:
                    break
            elif isinstance(parent, _FUNCTIONS):
                break
            child = parent
        return tuple(reversed(loops)), tuple(reversed(branches)), header

    def _in_first_iterable(self, node: ast.AST, comprehension: ast.AST) -> bool:
        first = comprehension.generators[0].iter  # type: ignore[attr-defined]
        while node is not comprehension:
            if node is first:
                return True
            node = self._parents[node]
        return False

    def _loop(self, node: ast.AST) -> Loop:
        if isinstance(node, (ast.For, ast.AsyncFor)):
            header = f"for {self._segment(node.target)} in {self._segment(node.iter)}"
            return Loop(node.lineno, node.col_offset, "for", header)
        if isinstance(node, ast.While):
            return Loop(node.lineno, node.col_offset, "while", f"while {self._segment(node.test)}")
        first = node.generators[0]  # type: ignore[attr-defined]
        header = f"for {self._segment(first.target)} in {self._segment(first.iter)}"
        return Loop(first.target.lineno, first.target.col_offset, "comprehension", header)

    def _target(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Call) and _makes_an_object(node):
            return None
        if isinstance(node, ast.AugAssign):
            return self._segment(node.target)
        child: ast.AST = node
        parent = self._parents.get(child)
        while isinstance(parent, (ast.IfExp, ast.NamedExpr)) and child is not getattr(parent, "test", None):
            if isinstance(parent, ast.NamedExpr):
                return self._segment(parent.target)
            child, parent = parent, self._parents.get(parent)
        if isinstance(parent, ast.Assign) and parent.value is child and len(parent.targets) == 1:
            target = parent.targets[0]
        elif isinstance(parent, ast.AnnAssign) and parent.value is child:
            target = parent.target
        else:
            return None
        return self._segment(target) if isinstance(target, (ast.Name, ast.Attribute)) else None

    def _test(self, node: ast.AST) -> Test | None:
        child: ast.AST = node
        negated, part = False, False
        while (parent := self._parents.get(child)) is not None:
            if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
                if child is not parent.test:
                    return None
                break
            if isinstance(parent, ast.comprehension):
                if child not in parent.ifs:
                    return None
                break
            if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
                negated = not negated
            elif isinstance(parent, ast.expr) and not isinstance(parent, ast.Lambda):
                part = True
            else:
                return None
            child = parent
        if parent is None:
            return None
        role = "part" if part else "negated" if negated else "whole"
        return self._describe(parent, child, role)

    def _describe(self, owner: ast.AST, test: ast.AST, role: str) -> Test:
        true: ast.stmt | ast.expr | None = None
        false: ast.stmt | ast.expr | None = None
        kind = _TEST_KINDS.get(type(owner), "filter")
        if isinstance(owner, (ast.If, ast.While)):
            true, false = owner.body[0], owner.orelse[0] if owner.orelse else None
        elif isinstance(owner, ast.IfExp):
            true, false = owner.body, owner.orelse
        place: Any = owner if isinstance(owner, (ast.stmt, ast.expr)) else test
        return Test(
            kind, place.lineno, place.col_offset, self._segment(test), role,  # type: ignore[arg-type]
            *self._arm(true), *self._arm(false),
        )  # fmt: skip

    def _arm(self, node: ast.stmt | ast.expr | None) -> tuple[int | None, str | None]:
        if node is None:
            return None, None
        if isinstance(node, ast.expr):
            return node.lineno, self._segment(node)
        return node.lineno, self.lines[node.lineno - 1].decode(errors="replace").strip()


def _makes_an_object(call: ast.Call) -> bool:
    """Whether this looks like `layer = nn.Linear(3, 3)`: what is named is no tensor, though tensors were made."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name[:1].isupper() and not name.endswith(("Tensor", "Parameter"))


def _range(node: ast.AST) -> tuple[int, int, int, int] | None:
    line = getattr(node, "lineno", None)
    if line is None:
        return None
    return line, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
