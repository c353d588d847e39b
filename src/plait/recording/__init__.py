"""A run on disk: steps, distinct graphs, decisions. Needs no torch."""

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
    "BackwardStats", "OpTotal", "OtherTotal", "Read", "ReadTotal", "Recording", "Sample", "SeenDecision", "Step",
    "StepTotal", "Variant", "load", "losses", "op_totals", "other_totals", "read_rows", "read_totals", "reads_per_graph",
    "step_reads", "step_totals",
]  # fmt: skip
