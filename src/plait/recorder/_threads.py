"""Threads: what another thread than the recorded one computes is not seen, only that it computes something."""

from __future__ import annotations

import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

from torch.overrides import TorchFunctionMode

from plait._torch import push_mode, take_out
from plait.recorder._functions import looks
from plait.recorder._sites import LOADING

if TYPE_CHECKING:
    from plait.recorder._recorder import Record


def watched_thread(original: Any, record: Record, seen: set[str]) -> Any:
    """`Thread._bootstrap_inner`, which puts the names of threads with work into `seen`."""

    @functools.wraps(original)
    def run(thread: threading.Thread) -> None:
        if not record.active:
            original(thread)
            return
        witness = _Witness(thread.name, seen)
        push_mode(witness)
        try:
            original(thread)
        finally:
            take_out(witness)

    return run


class _Witness(TorchFunctionMode):
    """Notices that a thread computes something, and nothing else."""

    def __init__(self, name: str, seen: set[str]) -> None:
        super().__init__()
        self._name = name
        self._seen = seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _looks() and not sys._getframe(1).f_code.co_filename.startswith(LOADING):
            self._seen.add(self._name)
        return func(*args, **(kwargs or {}))


_looks = functools.cache(looks)
