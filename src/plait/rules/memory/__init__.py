"""Rules of the category memory, one a file."""
