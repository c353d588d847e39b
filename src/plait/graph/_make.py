"""Makes many objects of a frozen class quickly.

The `__init__` of a frozen dataclass sets each field through `object.__setattr__`, which took most of the time of
building a graph of 100,000 nodes. Here a twin that is not frozen is filled and then becomes the frozen class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def maker(cls: Callable[P, T]) -> Callable[P, T]:
    """What makes objects of this frozen dataclass with slots, all fields given in order.

    >>> from plait.graph._model import Edge
    >>> maker(Edge)(3, "0") == Edge(3, "0")
    True
    """
    kind: Any = cls
    names = [field.name for field in fields(kind)]
    lines = [f"def __init__(self, {', '.join(names)}):", *(f"    self.{name} = {name}" for name in names)]
    known: dict[str, Any] = {"_frozen": kind}
    exec("\n".join([*lines, "    self.__class__ = _frozen"]), known)  # as `dataclass` writes its own
    twin: Any = type(kind.__name__, (), {"__slots__": tuple(names), "__init__": known["__init__"]})
    made: Callable[P, T] = twin
    return made
