"""Shared by all tests: an error inside plait is an error of the test; helper modules can be imported."""

import os
import sys
from pathlib import Path

os.environ["PLAIT_STRICT"] = "1"

sys.path.insert(0, str(Path(__file__).parent))
