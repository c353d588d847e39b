"""Watches a program run and writes down the graph it builds. Needs torch."""

from plait.recorder._recorder import Record, record, recording_of

__all__ = ["Record", "record", "recording_of"]
