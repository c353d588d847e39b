"""Rules of the category suspicious, one a file."""
