"""Watches a program run and writes down the graph it builds. Needs torch."""

from plait.recorder._recorder import Record, record

__all__ = ["Record", "record"]
