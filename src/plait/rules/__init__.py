"""Explains a recording: rules look at its graphs and steps and say what is wrong, with lines. Needs no torch."""

from plait.rules._catalogue import Rule, rule, rules
from plait.rules._explain import explain_recording, merged
from plait.rules._failures import finding_of
from plait.rules._findings import Findings
from plait.rules._formats import FORMATS
from plait.rules._question import explain_leaf
from plait.rules._rule import CATEGORIES, Category, Finding, Parting, Where

__all__ = [
    "CATEGORIES",
    "FORMATS",
    "Category",
    "Finding",
    "Findings",
    "Parting",
    "Rule",
    "Where",
    "explain_leaf",
    "explain_recording",
    "finding_of",
    "merged",
    "rule",
    "rules",
]
