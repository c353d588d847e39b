"""Public checkers: what a test of a program that plait touches wants to know. Needs torch."""

from plait._testing_batch import BatchMismatch, check_batch
from plait._testing_rows import check_independent
from plait._testing_same import Outcome, SameProgram, check_same_program

__all__ = ["BatchMismatch", "Outcome", "SameProgram", "check_batch", "check_independent", "check_same_program"]
