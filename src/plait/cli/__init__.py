"""The commands, one file each; `plait.__main__` finds them by name."""
