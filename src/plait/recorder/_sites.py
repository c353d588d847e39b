"""Sites: which line of the person's program is running, found from a frame and its instruction."""

from __future__ import annotations

import dis
import linecache
import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import torch

from plait.graph import Site
from plait.graph._source import SourceIndex

CodeSites = dict[int, int] | bool | None  # sites by instruction, or one of the next two
LIBRARY: Final = None  # code of torch, of plait, of the standard library: look at its caller
QUIET: Final = False  # code of torch that does housekeeping (clipping, loading data), or plait's own: not recorded
MODULE_CALL: Final = True  # the wrapper of `nn.Module.__call__`: whose call it is, is already known
UNSEEN: Final[dict[int, int]] = {}  # what `codes.get` answers for code that was not classified yet

_PLAIT = str(Path(__file__).resolve().parent.parent) + os.sep
_TORCH = str(Path(torch.__file__).resolve().parent) + os.sep
_OURS = _PLAIT + "recorder" + os.sep
LOADING: Final = _TORCH + os.path.join("utils", "data") + os.sep
_QUIET_FILES = (
    _TORCH + os.path.join("nn", "utils", "clip_grad.py"),
    _TORCH + "optim" + os.sep,
    LOADING,  # what a loader stacks is data, an input of the step
    _TORCH + os.path.join("autograd", "__init__.py"),  # the ones that a backward pass starts from
    _OURS,  # our own hooks
)
_LAUNCHER: Final = os.path.join(os.path.realpath(sysconfig.get_path("scripts")), "plait")  # what starts `plait run`
_PASSES_ON = {"run", "recorded"}  # of `Record`: what they call is the program's
_SITE_PACKAGES = os.sep + "site-packages" + os.sep
_STANDARD = tuple(
    os.path.realpath(path) + os.sep for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")} if path
)
_GENERATED = (
    "<frozen ",
    "<eval_with_key>",
    "<__array_function__",
    "<attrs generated",
    "<string>",
    "<@beartype",
    "<plait ",
)


# What runs the cells of a notebook is no part of the program in them.
_SHELLS = (f"{os.sep}IPython{os.sep}", f"{os.sep}ipykernel{os.sep}")

_indexes: dict[str, tuple[str, SourceIndex]] = {}  # shared by all recordings of a process: parsing is slow


def _index_of(name: str, text: str) -> SourceIndex:
    known = _indexes.get(name)
    if known is None or known[0] != text:
        known = _indexes[name] = text, SourceIndex(text)
    return known[1]


class Activation:
    """One run of a function of the program. It hangs on the frame as `f_trace`, which nobody calls unless a debugger
    is on, and dies with the frame; so a frame is told from a later one at the same address. It is callable because a
    debugger that is switched on later calls `f_trace`: None means "go on without me"."""

    __slots__ = ("address", "code", "depth", "in_arm", "place", "site")

    def __init__(self, code: CodeType, depth: int, in_arm: bool, address: int, place: int, site: int | None) -> None:
        self.code = code
        self.depth = depth
        self.in_arm = in_arm
        self.address = address
        self.place = place  # of its EnterRow on the tape
        self.site = site  # from where it was called

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        return None


class Sites:
    """Numbers for places in the source. `codes` maps the address of a code object to its sites by instruction."""

    def __init__(self, program_texts: Mapping[str, str]) -> None:
        self.codes: dict[int, CodeSites] = {}
        self.bodies: list[list[Any]] = []
        self.sources: dict[str, str] = {}
        self.tests: set[tuple[str, int, int]] = set()  # tests in which a value was read: (file, line, column)
        self._kept: list[CodeType] = []  # a code object that is known by its address must not die
        self._positions: dict[int, list[tuple[int | None, int | None, int | None, int | None]]] = {}
        self._index: dict[str, SourceIndex] = {}
        self._program_texts = program_texts  # code that stands in no file (`python -c`), by the name it goes by

    def of(self, code: CodeType) -> CodeSites:
        """The sites of a code object by instruction; LIBRARY or QUIET if it is not the program's own."""
        found = self.codes.get(id(code), UNSEEN)
        return self.learn_code(code) if found is UNSEEN else found

    def learn_code(self, code: CodeType) -> CodeSites:
        """Classify a code object that was not seen before."""
        self._kept.append(code)
        found: CodeSites
        if code.co_filename.startswith(_OURS) and code.co_name in _PASSES_ON:
            found = LIBRARY
        elif code.co_filename.startswith(_QUIET_FILES):
            found = QUIET
        elif self._is_library(code.co_filename):
            found = LIBRARY
        else:
            found = {}
        self.codes[id(code)] = found
        return found

    def _is_library(self, name: str) -> bool:
        if name in self._program_texts:
            return False
        if name.startswith((_PLAIT, _TORCH)) or name.startswith(_GENERATED):
            return True
        if _SITE_PACKAGES in name and any(each in name for each in _SHELLS):
            return True
        real = os.path.realpath(name)
        return real == _LAUNCHER or (real.startswith(_STANDARD) and _SITE_PACKAGES not in name)

    def learn(self, code: CodeType, offset: int) -> int:
        """The number of a place that was not seen before."""
        positions = self._positions.get(id(code))
        if positions is None:
            positions = self._positions[id(code)] = list(code.co_positions())
        line, end_line, column, end_column = positions[_asked_at(code, offset) // 2] if offset >= 0 else (None,) * 4
        line = line or code.co_firstlineno
        facts = self._source(code.co_filename).facts(
            line, end_line or line, column, end_column, dis.opname[code.co_code[offset]] if offset >= 0 else "",
            code.co_name,
        )  # fmt: skip
        test = facts.test
        number = len(self.bodies)
        self.bodies.append(
            [code.co_filename, line, end_line or line, column, end_column, offset, code.co_qualname, facts.expression,
             facts.target, facts.loops, facts.branches, test, facts.header]
        )  # fmt: skip
        sites = self.codes[id(code)]
        if isinstance(sites, dict):
            sites[offset] = number
        return number

    def at_line(self, file: str, line: int, function: str) -> Site:
        """A place of which only the line is known; it gets no number."""
        facts = self._source(file).line_facts(line)
        return Site(-1, file, line, line, None, None, -1, function, facts.expression, facts.target, facts.loops,
                    facts.branches, facts.test, facts.header)  # fmt: skip

    def keep_source(self, file: str) -> None:
        """Have the text of a file written into the recording, although no node of it is."""
        self._source(file)

    def is_program(self, file: str) -> bool:
        """Whether a file belongs to the program, not to a library."""
        return not self._is_library(file) and not file.startswith("<")

    def in_arm(self, site: int) -> bool:
        """Whether the place stands in an arm of a test in which a value of a tensor was read."""
        body = self.bodies[site]
        return any((body[0], branch.line, branch.column) in self.tests for branch in body[10])

    def read_at(self, site: int) -> None:
        """Note that a value was read here, so the arms of the test around it are chosen by values."""
        body = self.bodies[site]
        if body[11] is not None:
            self.tests.add((body[0], body[11].line, body[11].column))

    def _source(self, name: str) -> SourceIndex:
        if name not in self._index:
            text = self._program_texts.get(name) or "".join(linecache.getlines(name))
            self._index[name] = _index_of(name, text)
            if text:
                self.sources[name] = text
        return self._index[name]


def _asked_at(code: CodeType, offset: int) -> int:
    """The instruction whose range says what was asked at `offset`.

    NOTE [Jumps of a test]
        Python 3.11 gives the jump of `if x.any():` the range of the whole statement, later versions that of the
        test; for one part of an `and` or `or` both are too wide. What made the value is the instruction before it.
    """
    if "JUMP" not in dis.opname[code.co_code[offset]]:
        return offset
    before = offset - 2
    while before > 0 and dis.opname[code.co_code[before]] in _BETWEEN:
        before -= 2
    return before if before >= 0 else offset


_BETWEEN = frozenset({"CACHE", "NOP", "EXTENDED_ARG", "COPY", "TO_BOOL", "NOT_TAKEN"})
