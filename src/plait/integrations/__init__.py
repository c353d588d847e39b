"""Neighbours of plait, one file each; nothing here is loaded before the neighbour is."""
