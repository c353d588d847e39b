"""The data model: what a step of a program built, and how to walk it. Needs no torch."""

from plait.graph._builder import GraphBuilder, build
from plait.graph._model import (
    Backward,
    BackwardNode,
    Decision,
    Edge,
    Event,
    Graph,
    Hashes,
    ModeChange,
    Node,
    Region,
    Saved,
    Scope,
    Value,
)
from plait.graph._site import Branch, Loop, Site, Test

__all__ = [
    "Backward", "BackwardNode", "Branch", "Decision", "Edge", "Event", "Graph", "GraphBuilder", "Hashes", "Loop",
    "ModeChange", "Node", "Region", "Saved", "Scope", "Site", "Test", "Value", "build",
]  # fmt: skip
