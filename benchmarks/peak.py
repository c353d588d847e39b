"""The largest amount of memory that a call needs at one moment, as Linux counts it."""

from __future__ import annotations

import ctypes
import gc
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")


def _kilobytes(field: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1])


def peak(run: Callable[[], Any], reset: Callable[[], Any], times: int = 5) -> float:
    """Bytes of resident memory at the peak of `run()` over those before it; the median, after two runs to warm up.

    The kernel keeps the high mark itself (VmHWM; writing 5 to clear_refs sets it to the present size), so nothing is
    missed between two looks.  What earlier runs freed is first given back to the system.
    """
    trim = ctypes.CDLL(None).malloc_trim
    found = []
    for k in range(times + 2):
        reset()
        gc.collect()
        trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before = _kilobytes("VmRSS")
        run()
        if k >= 2:
            found.append((_kilobytes("VmHWM") - before) * 1024)
    return float(statistics.median(found))
