"""Runs a model again in other company and says what should not have changed but did. Needs torch."""

from plait.checks._check import Check, Experiment, check

__all__ = ["Check", "Experiment", "check"]
