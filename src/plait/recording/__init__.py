"""A run on disk: steps, distinct graphs, decisions. Needs no torch."""

from plait.recording._failure import Broken, Facts, Failure, Place, Target, Window
from plait.recording._model import BackwardStats, Read, Sample, SeenDecision, Step, Variant
from plait.recording._reader import Recording, load
from plait.recording._totals import (
    OpTotal,
    OtherTotal,
    ReadTotal,
    StepTotal,
    losses,
    op_totals,
    other_totals,
    read_rows,
    read_totals,
    reads_per_graph,
    step_reads,
    step_totals,
)

__all__ = [
    "BackwardStats", "Broken", "Facts", "Failure", "OpTotal", "OtherTotal", "Place", "Read", "ReadTotal",
    "Recording", "Sample", "SeenDecision", "Step", "StepTotal", "Target", "Variant", "Window", "load", "losses",
    "op_totals", "other_totals", "read_rows", "read_totals", "reads_per_graph", "step_reads", "step_totals",
]  # fmt: skip
