"""Rules of the category dynamism, one a file."""
