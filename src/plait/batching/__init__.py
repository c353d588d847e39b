"""Runs many examples as one."""

from plait.batching._api import Batched, BatchedModule, batch
from plait.batching._cells import cell
from plait.batching._lazy import BatchError
from plait.batching._report import Report

__all__ = ["BatchError", "Batched", "BatchedModule", "Report", "batch", "cell"]
