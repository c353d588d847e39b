"""An error of the program: the facts that stand around it, and what plait made of them. Frozen, no torch.

The recorder gathers `Facts` at the moment of the error (which saved tensors are gone or were written, what the graph
is). Whoever explains turns them into a `Failure`; that one is kept in the recording and becomes the note.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from plait.graph import Graph, Site

Category = Literal["correctness", "suspicious", "memory", "numerics", "dynamism", "performance"]


@dataclass(frozen=True)
class Window:
    """The graph of one stretch of the run as it stood when the error came.

    `origins` tells for an input which value of which window it is (window, value). `storages` numbers the memory
    behind the inputs: equal numbers are one storage.
    """

    graph: Graph
    origins: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    storages: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Broken:
    """A tensor that a backward node saved and that can't be used any more: `freed`, or else written in place."""

    window: int
    node: int
    name: str
    freed: bool
    shape: tuple[int, ...] | None
    storage: int | None


@dataclass(frozen=True, slots=True)
class Target:
    """The tensor that a refused call was about to write or read; `value` is None where nothing is known of it.

    `leaf`: a leaf that asks for gradients. `base_leaf`: a tensor view of one. `overlapping`: some of its elements
    share memory (an expanded tensor). `inference`: made under inference_mode. `batched`: a lane of a transform.
    """

    value: int | None
    expression: str
    shape: tuple[int, ...]
    leaf: bool
    base_leaf: bool
    view: bool
    overlapping: bool
    inference: bool
    batched: bool


@dataclass(frozen=True)
class Facts:
    """What is known at the moment of an error. The last window is the one under way.

    `call` is what was called (`backward`, `grad`, `add_`, `bool`), `kind` what sort of call it is. `reached` are the
    backward nodes on the way from the roots as (window, backward node), latest first; `broken` those of their saved
    tensors that can't be used. `older`: nodes from before all windows. `unreached`: numbers of the inputs that were
    asked for and can't be reached. `custom`: a custom Function whose backward gives another number of gradients than it
    has inputs (its name, how many it gives, how many it should), at `custom_site`.
    """

    call: str
    kind: Literal["backward", "grad", "write", "read", "op", "module", "recompute", "compile"]
    error: str
    step: int
    site: Site | None
    windows: tuple[Window, ...]
    reached: tuple[tuple[int, int], ...] = ()
    broken: tuple[Broken, ...] = ()
    older: int = 0
    scalar: bool = True
    rooted: bool = True
    unreached: tuple[int, ...] = ()
    target: Target | None = None
    arguments: tuple[Target, ...] = ()
    grad_mode: bool = True
    transform: bool = False
    parameters: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    custom: tuple[str, int, int] | None = None
    custom_site: Site | None = None

    @property
    def graph(self) -> Graph:
        """The graph under way."""
        return self.windows[-1].graph


def path_of(file: str) -> str:
    """The file as a person would name it: relative to the current folder where it is inside."""
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if relative.startswith("..") or not os.path.isabs(file) else relative


@dataclass(frozen=True, slots=True)
class Place:
    """A line that a sentence speaks of; `role` says what happened there (`made`, `saved`, `written`, `backward`)."""

    role: str
    file: str
    line: int
    expression: str

    def __str__(self) -> str:
        return f"{path_of(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of the program, explained: three sentences and the lines they speak of, the guilty one first."""

    cause: str
    category: Category
    error: str
    call: str
    step: int
    fact: str
    consequence: str
    cure: str
    places: tuple[Place, ...]

    @property
    def place(self) -> Place | None:
        """The line to change."""
        return self.places[0] if self.places else None

    def __str__(self) -> str:
        where = f"{self.place}  " if self.place else ""
        return f"{where}{self.fact}\n  {self.consequence}\n  {self.cure}"

    @property
    def note(self) -> str:
        """What is added to the exception."""
        return f"plait: {self}\n  ({self.cause})"

    def to_json(self) -> str:
        """As the recording keeps it."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Failure:
        """What `to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        fields["places"] = tuple(Place(**each) for each in fields["places"])
        return Failure(**fields)
