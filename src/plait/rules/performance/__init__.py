"""Rules of the category performance, one a file."""
