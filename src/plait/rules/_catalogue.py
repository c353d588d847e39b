"""The catalogue: every rule is a file in the folder of its category, and its docstring is its page.

A rule file has a docstring and one or both of the functions `check(case)`, called once a distinct graph, and
`check_run(run)`, called once a recording; both yield findings. Other packages add rules under the entry point
group `plait.rules`: each names a module of the same form with a `CATEGORY`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import TYPE_CHECKING, Any

from plait._errors import NotFoundError, PlaitError
from plait.rules._rule import CATEGORIES, Category, Finding

if TYPE_CHECKING:
    from plait.rules._case import Case, Run

GROUP = "plait.rules"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its name (after the bad thing, so that "ignore X" reads well), its page, its checks."""

    name: str
    category: Category
    page: str
    check: Callable[[Case], Iterable[Finding]] | None
    check_run: Callable[[Run], Iterable[Finding]] | None

    @property
    def title(self) -> str:
        """The first line of the page."""
        return self.page.strip().splitlines()[0]


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, by category and name."""
    found = []
    for category in CATEGORIES:
        package = importlib.import_module(f"plait.rules.{category}")
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda each: each.name):
            if not info.name.startswith("_"):
                found.append(_rule(importlib.import_module(f"{package.__name__}.{info.name}"), info.name, category))
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        module = entry.load()
        found.append(_rule(module, entry.name, getattr(module, "CATEGORY", "suspicious")))
    return tuple(found)


def rule(name: str) -> Rule:
    """The rule with this name."""
    for each in rules():
        if each.name == name:
            return each
    raise NotFoundError(f"there is no rule {name!r}; `plait rules` lists them")


def chosen(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> tuple[Rule, ...]:
    """The rules that `select` names (all if it is empty) without those of `ignore`; categories count as names."""
    select, ignore = tuple(select), tuple(ignore)
    known = {each.name for each in rules()} | set(CATEGORIES)
    for each in (*select, *ignore):
        if each not in known:
            raise NotFoundError(f"there is no rule or category {each!r}; `plait rules` lists them")
    return tuple(
        each
        for each in rules()
        if (not select or each.name in select or each.category in select)
        and each.name not in ignore
        and each.category not in ignore
    )


def _rule(module: ModuleType, name: str, category: Any) -> Rule:
    check, check_run = getattr(module, "check", None), getattr(module, "check_run", None)
    if not module.__doc__ or (check is None and check_run is None):
        raise PlaitError(f"{module.__name__} is no rule: it needs a docstring and a function check or check_run")
    if category not in CATEGORIES:
        raise PlaitError(f"{module.__name__}: there is no category {category!r}")
    return Rule(name.replace("_", "-"), category, module.__doc__, check, check_run)
