"""A run on disk: steps, distinct graphs, decisions. Needs no torch."""

from plait.recording._model import BackwardStats, Read, Sample, SeenDecision, Step, Variant
from plait.recording._reader import Recording, load

__all__ = ["BackwardStats", "Read", "Recording", "Sample", "SeenDecision", "Step", "Variant", "load"]
