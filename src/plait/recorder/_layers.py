"""Layers: attributes of other libraries that recordings have replaced, so that each can be put back on its own."""

from __future__ import annotations

from typing import Any

_ABSENT: Any = object()


class Layer:
    """One attribute that a recording has replaced."""

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self._owner = owner
        self._name = name
        self._old = owner.__dict__.get(name, _ABSENT)
        self._value = value
        setattr(owner, name, value)
        layers.append(self)

    def undo(self) -> None:
        """Put the old value back, also from under another recording that began later and still runs."""
        layers.remove(self)
        if self._owner.__dict__.get(self._name) is self._value:
            if self._old is _ABSENT:
                delattr(self._owner, self._name)
            else:
                setattr(self._owner, self._name, self._old)
            return
        for above in layers:
            if above._old is self._value:
                above._old = self._old  # somebody else's wrapper keeps ours, which is inert by itself


layers: list[Layer] = []  # of all recordings of the process
