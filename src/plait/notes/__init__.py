"""Why an error of the program came, from the facts at that moment: the note on the exception. Needs no torch."""

from plait.notes._explain import explain_error, failure_of

__all__ = ["explain_error", "failure_of"]
