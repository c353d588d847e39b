"""Shared by all tests: the folder of hand-made recordings can be imported."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
