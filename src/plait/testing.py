"""Public checkers."""

from plait._testing_batch import BatchMismatch, check_batch

__all__ = ["BatchMismatch", "check_batch"]
