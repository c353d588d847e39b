"""The call stack: which functions of the program are under way, and from which place each was called."""

from __future__ import annotations

from typing import Any

from plait.graph._rows import EnterRow, ReturnRow
from plait.recorder._ledger import Ledger
from plait.recorder._sites import Activation, Sites


class CallStack:
    """Follows the program from function to function; what begins and what returns becomes a row each."""

    def __init__(self, sites: Sites, ledger: Ledger) -> None:
        self._sites = sites
        self._ledger = ledger
        self._enter_numbers: dict[tuple[int, int | None], int] = {}
        self.root = 0  # the address of the frame that began the recording: its callers are no part of it
        self.stack: list[Activation] = []
        self.top: Activation | None = None

    def clear(self) -> None:
        """The functions that are under way enter again at the next event, so that every step stands alone."""
        self.stack.clear()
        self.top = None

    def site_of(self, frame: Any) -> int | None:
        """The place in the program from which `frame` was reached; follows calls and returns of its functions."""
        while frame is not None:
            code = frame.f_code
            sites = self._sites.of(code)
            if isinstance(sites, dict):
                if frame.f_trace is not self.top or self.top is None:
                    self.switch(frame)
                offset = frame.f_lasti
                site = sites.get(offset)
                return self._sites.learn(code, offset) if site is None else site
            frame = frame.f_back
        return None

    def switch(self, frame: Any) -> None:
        """The program is in another function than at the last event: write down what returned and what began."""
        entered = []
        keep = 0
        while frame is not None:
            if isinstance(self._sites.of(frame.f_code), dict):
                known = self._activation(frame)
                if known is not None:
                    keep = known.depth + 1
                    break
                entered.append(frame)
            if id(frame) == self.root:
                break
            frame = frame.f_back
        if len(self.stack) > keep:
            self._ledger.append(ReturnRow(len(self.stack) - keep))
            del self.stack[keep:]
        for each in reversed(entered):
            self._enter(each)
        self.top = self.stack[-1] if self.stack else None

    def _activation(self, frame: Any) -> Activation | None:
        mark = frame.f_trace
        if type(mark) is Activation:
            known = mark.depth < len(self.stack) and self.stack[mark.depth] is mark
            return mark if known else None
        if mark is not None:  # a debugger owns the frame: know it by its address and code
            for each in self.stack:
                if each.address == id(frame) and each.code is frame.f_code:
                    return each
        return None

    def _enter(self, frame: Any) -> None:
        code = frame.f_code
        site = None
        if self.stack:
            caller = frame.f_back
            while caller is not None and not isinstance(self._sites.of(caller.f_code), dict):
                caller = caller.f_back
            if caller is not None and caller.f_code is self.stack[-1].code:
                site = self._site_in(caller)
        made = Activation(code, len(self.stack), self.in_arm(site), id(frame), len(self._ledger.tokens), site)
        if frame.f_trace is None or type(frame.f_trace) is Activation:
            frame.f_trace = made
        key = id(code), site
        number = self._enter_numbers.get(key)
        if number is None:
            number = self._ledger.number_of(EnterRow(code.co_qualname, site, code.co_firstlineno))
            self._enter_numbers[key] = number
        self._ledger.append_number(number)
        self.stack.append(made)

    def _site_in(self, frame: Any) -> int:
        sites = self._sites.of(frame.f_code)
        assert isinstance(sites, dict)
        site = sites.get(frame.f_lasti)
        return self._sites.learn(frame.f_code, frame.f_lasti) if site is None else site

    def in_arm(self, site: int | None) -> bool:
        """Whether the program is in an arm that the value of a tensor chose."""
        return bool(self.stack and self.stack[-1].in_arm) or (site is not None and self._sites.in_arm(site))
