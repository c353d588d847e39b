"""Results as flat lists: tuples, named tuples, lists and dicts; everything else is a leaf."""

from __future__ import annotations

from typing import Any


class Tree:
    """The structure of a result."""

    __slots__ = ("keys", "kind", "parts")

    def __init__(self, kind: Any, keys: Any, parts: list[Tree]) -> None:
        self.kind = kind
        self.keys = keys
        self.parts = parts

    def describe(self) -> str:
        if self.kind is None:
            return "one value"
        return f"a {self.kind.__name__} of {len(self.parts)}" + (f" with keys {list(self.keys)}" if self.keys else "")


def is_tuple(x: Any) -> bool:
    """A tuple, a named one, or one of `torch.return_types`, which PyTorch's functions give."""
    t = type(x)
    return t is tuple or (isinstance(x, tuple) and (hasattr(t, "_fields") or hasattr(t, "n_sequence_fields")))


def sequence(kind: Any, parts: Any) -> Any:
    """These parts as a list or a tuple of this kind."""
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


LEAF = Tree(None, None, [])


def flatten(x: Any) -> tuple[list[Any], Tree]:
    leaves: list[Any] = []
    return leaves, _flatten(x, leaves)


def _flatten(x: Any, leaves: list[Any]) -> Tree:
    t = type(x)
    if t is list or is_tuple(x):
        return Tree(t, None, [_flatten(v, leaves) for v in x])
    if t is dict:
        return Tree(t, tuple(x), [_flatten(v, leaves) for v in x.values()])
    leaves.append(x)
    return LEAF


def same_tree(a: Tree, b: Tree) -> bool:
    return (
        a.kind is b.kind
        and a.keys == b.keys
        and len(a.parts) == len(b.parts)
        and all(same_tree(x, y) for x, y in zip(a.parts, b.parts))
    )


def unflatten(tree: Tree, leaves: list[Any]) -> Any:
    it = iter(leaves)

    def make(t: Tree) -> Any:
        if t.kind is None:
            return next(it)
        parts = [make(p) for p in t.parts]
        if t.kind is dict:
            return dict(zip(t.keys, parts))
        return sequence(t.kind, parts)

    return make(tree)
