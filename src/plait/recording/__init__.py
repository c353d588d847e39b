"""A run on disk: steps, distinct graphs, decisions. Needs no torch."""

from plait.recording._batches import batch_flushes, batch_groups, batches
from plait.recording._failure import Broken, Facts, Failure, Place, Target, Window
from plait.recording._model import (
    BackwardStats,
    Batch,
    BatchFlush,
    BatchGroup,
    Read,
    Sample,
    SeenDecision,
    Step,
    Variant,
)
from plait.recording._open import load
from plait.recording._reader import Recording
from plait.recording._totals import (
    BuiltGraph,
    OpTotal,
    OtherTotal,
    ReadTotal,
    StepGroup,
    built_graphs,
    losses,
    op_totals,
    other_totals,
    read_rows,
    read_totals,
    step_groups,
    step_reads,
)

__all__ = [
    "BackwardStats", "Batch", "BatchFlush", "BatchGroup", "Broken", "BuiltGraph", "Facts", "Failure", "OpTotal",
    "OtherTotal", "Place", "Read", "ReadTotal", "Recording", "Sample", "SeenDecision", "Step", "StepGroup",
    "Target", "Variant", "Window", "batch_flushes", "batch_groups", "batches", "built_graphs", "load", "losses",
    "op_totals", "other_totals", "read_rows", "read_totals", "step_groups", "step_reads",
]  # fmt: skip
