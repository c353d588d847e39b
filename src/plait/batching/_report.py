"""What a batched run did: groups and widths, flushes and why, what ran alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import CodeType
from typing import Any


def _line(code: CodeType, offset: int) -> int:
    line = list(code.co_positions())[offset // 2][0]
    return code.co_firstlineno if line is None else line


@dataclass
class Group:
    """Calls of one kind: how many there were and in how many groups they ran."""

    name: str
    calls: int = 0
    groups: int = 0

    @property
    def width(self) -> float:
        """Mean number of calls that ran together."""
        return self.calls / self.groups if self.groups else 0.0


@dataclass
class Report:
    """`batch.report`: print it, or read its fields."""

    examples: int = 0
    groups: dict[str, Group] = field(default_factory=dict)
    flushes: int = 0
    sites: Counter[Any] = field(default_factory=Counter)
    alone: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(what ran one example at a time, why), and how often."""
    vmapped: set[str] = field(default_factory=set)
    kinds: Counter[str] = field(default_factory=Counter)
    """How many signatures each name had: more than one means that shapes, flags or weights split its groups."""
    loop: str = ""
    """Why the whole batch ran as a plain loop, if it did."""

    def group(self, name: str, width: int) -> None:
        g = self.groups.get(name)
        if g is None:
            g = self.groups[name] = Group(name)
        g.calls += width
        g.groups += 1

    def ran_alone(self, name: str, why: str, times: int = 1) -> None:
        self.alone[(name, why)] += times

    def by_vmap(self, name: str) -> None:
        self.vmapped.add(name)

    @property
    def reads(self) -> Counter[str]:
        """Where the program asked for a value (`file:line`), and how often."""
        res: Counter[str] = Counter()
        for (code, offset), n in self.sites.items():
            res[f"{code.co_filename}:{_line(code, offset)}" if code is not None else ""] += n
        return res

    @property
    def calls(self) -> int:
        return sum(g.calls for g in self.groups.values())

    @property
    def width(self) -> float:
        """Mean number of calls that ran together, over all kinds of calls."""
        n = sum(g.groups for g in self.groups.values())
        return self.calls / n if n else 0.0

    def advice(self) -> str:
        """One line on what would help most, or ''."""
        if self.loop:
            return f"ran as a plain loop: {self.loop}"
        if self.alone:
            (name, why), n = self.alone.most_common(1)[0]
            return f"{name} ran one example at a time {n} times: {why}"
        dim = self.groups.get("unsqueeze")
        if dim is not None and dim.calls >= 4 and dim.width < 2:
            return (
                f"unsqueeze ran in groups of {dim.width:.1f}: leave out the batch dimension of one, then examples of "
                "different length run together"
            )
        narrow = [g for g in self.groups.values() if g.calls >= 32 and g.width < 4]
        if narrow:
            g = max(narrow, key=lambda g: g.groups)
            k = self.kinds[g.name]
            why = f" (it came in {k} kinds: shapes, constants or weights differ)" if k > 1 else ""
            return f"{g.name} ran in groups of {g.width:.1f}{why}"
        ops = list(self.groups.values())
        if len(ops) > 6 and self.calls > 2000:
            return "many single ops: put the straight-line part into a function with @plait.cell"
        return ""

    def __str__(self) -> str:
        if self.loop:
            return f"plait.batch: {self.examples} examples as a plain loop: {self.loop}"
        n = sum(g.groups for g in self.groups.values())
        lines = [
            f"plait.batch: {self.examples} examples, {self.calls} calls in {n} groups (mean width {self.width:.1f}), "
            f"{self.flushes} flushes"
        ]
        for g in sorted(self.groups.values(), key=lambda g: -g.calls):
            lines.append(f"  {g.name:<28} {g.calls:>8} calls  {g.groups:>6} groups  width {g.width:>7.1f}")
        for where, n in self.reads.most_common(5):
            lines.append(f"  value read {n} times at {where or 'unknown line'}")
        for (name, why), n in self.alone.most_common(5):
            lines.append(f"  alone: {name}, {n} times: {why}")
        for name in sorted(self.vmapped):
            lines.append(f"  {name}: no direct batched form, ran under torch.vmap")
        hint = self.advice()
        if hint:
            lines.append(f"  hint: {hint}")
        return "\n".join(lines)
