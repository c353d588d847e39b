"""Reads the decisions of a recording: which way, how often, how close, and where two variants part. No torch."""

from plait.decisions._survey import LoopTrips, Survey
from plait.decisions._table import Arm, Numbers, Place, read_decisions
from plait.decisions._variants import Parting, Program, VariantRow, read_programs

__all__ = [
    "Arm", "LoopTrips", "Numbers", "Parting", "Place", "Program", "Survey", "VariantRow", "read_decisions",
    "read_programs",
]  # fmt: skip
