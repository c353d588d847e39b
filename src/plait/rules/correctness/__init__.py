"""Rules of the category correctness, one a file."""
