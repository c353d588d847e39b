"""Modules over sequences whose whole call is one ragged node."""
from __future__ import annotations

from typing import Any

RAGGED_MODULES: dict[type, Any] = {}
