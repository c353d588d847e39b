"""Every environment variable that plait reads."""

from __future__ import annotations

import os

# PLAIT_STRICT=1: an error inside the recorder is raised instead of ending the recording. For plait's own tests.
STRICT = os.environ.get("PLAIT_STRICT", "") not in ("", "0")
