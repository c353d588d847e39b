"""Rules of the category numerics, one a file."""
