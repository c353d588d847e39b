"""Shared by all tests: an error inside plait is an error of the test; helper modules can be imported."""

import os
import sys
from pathlib import Path

os.environ["PLAIT_STRICT"] = "1"

sys.path.insert(0, str(Path(__file__).parent))

try:
    from hypothesis import settings
except ModuleNotFoundError:  # the tests that need it say so themselves
    pass
else:
    settings.register_profile("plait", deadline=None)  # a machine at work is no failure
    settings.load_profile("plait")
