"""check: the same rows in other company, other order, with more and other padding; what changes is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from plait._errors import PlaitError
from plait.checks import _words as words
from plait.checks._capture import Run, run
from plait.checks._compare import Effect, View, comparable, culprit, moved, outputs_moved
from plait.checks._inputs import Inputs, inputs_of, stacked
from plait.checks._state import State, modules_of, unchanged, without_dropout
from plait.recording import Failure


@dataclass(frozen=True)
class Experiment:
    """One comparison: what was done, with which row, and how far the row moved (None: not at all)."""

    name: str
    row: int
    effect: Effect | None
    rounding: bool = False


@dataclass(frozen=True)
class Check:
    """What `plait.check` found. False in a truth test if nothing is wrong.

    `findings` are in the form of all findings of plait: three sentences and the lines.
    """

    findings: tuple[Failure, ...]
    experiments: tuple[Experiment, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.findings)

    def __str__(self) -> str:
        done = len(self.experiments)
        lines = [f"{finding}\n  ({finding.cause})" for finding in self.findings]
        names = ", ".join(dict.fromkeys(each.name for each in self.experiments))
        lines += self.notes
        if not self.findings:
            lines.append(f"Every row is the same in every company ({done} comparisons: {names}).")
        return "\n".join(lines)

    __repr__ = __str__


def check(
    model: Callable[..., Any],
    examples: Any,
    *,
    lengths: Any = None,
    batch_dim: int = 0,
    rows: int = 8,
    seed: int = 0,
) -> Check:
    """Whether each row of a batch gets the result it would get alone, in another order, with other padding.

    Runs the model a few times and compares. When a row changes, the two recordings are compared and the first decision
    or operation that differs is named, with the size of the effect. Differences of rounding are told apart by a run in
    double precision. The model comes out as it was: parameters, buffers, gradients, modes and random streams.

    >>> import torch, plait
    >>> plait.check(torch.nn.Linear(3, 2), torch.randn(4, 3))
    Every row is the same in every company (8 comparisons: alone, other order).

    Args:
        model: what is called with the batch.
        examples: a batch (a tensor, or a tuple of all arguments), or a list of single examples to be stacked or padded.
        lengths: the real length of each row, where rows are padded at the end; without it padding is not looked at.
        batch_dim: the dimension of the arguments that counts the rows (the results' is found).
        rows: how many rows are tried at most; each costs a few calls of the model.
        seed: of the random numbers that the model draws; dropout is off during the check.

    Raises:
        PlaitError: the batch can't be taken apart, the model draws random numbers, or nothing it returns has rows.
    """
    if isinstance(examples, list):
        examples, found = stacked(examples)
        lengths = found if lengths is None else lengths
    inputs = inputs_of(examples, lengths, batch_dim)
    modules = modules_of(model)
    with unchanged(modules) as state:
        return _Checker(model, modules, state, inputs, rows, seed).check()


class _Checker:
    def __init__(
        self, model: Callable[..., Any], modules: list[torch.nn.Module], state: State, inputs: Inputs, rows: int,
        seed: int,
    ) -> None:  # fmt: skip
        self._model = model
        self._modules = modules
        self._state = state
        self._inputs = inputs
        self._seed = seed
        self._most = rows
        self._findings: dict[tuple[Any, ...], words.Seen] = {}
        self._experiments: list[Experiment] = []
        self._notes: list[str] = []

    def check(self) -> Check:
        together = self._run(self._inputs)
        if together.error is not None:
            raise PlaitError(f"check: the model fails on the whole batch: {_sentence(together.error)}") from (
                together.error
            )
        again = self._run(self._inputs, self._seed + 1)
        if any(moved(one, other) for one, other in zip(together.output, again.output) if one.shape == other.shape):
            raise PlaitError(
                "check: two runs of the same batch differ, so the model draws random numbers (beside dropout layers,"
                " which are off here); give it in eval mode or without them"
            )
        self._alone(together)
        self._other_order(together)
        if self._inputs.lengths is not None:
            self._padding()
        findings = tuple(words.finding(seen, self._inputs.rows) for seen in self._findings.values())
        return Check(findings, tuple(self._experiments), tuple(self._notes))

    def _run(self, inputs: Inputs, seed: int | None = None, model: Callable[..., Any] | None = None) -> Run:
        self._state.restore()
        without_dropout(self._modules)
        called = self._model if model is None else model
        if isinstance(model, torch.nn.Module):
            without_dropout([model])
        return run(called, inputs.arguments(), self._seed if seed is None else seed)

    def _alone(self, together: Run) -> None:
        any_rows = False
        for row in range(min(self._inputs.rows, self._most)):
            single = self._run(self._inputs.pick([row]))
            if single.error is not None:
                self._other_neighbours(together, row, single.error)
                return
            view = View(row, self._inputs.rows)
            any_rows = any_rows or comparable(together, single, view)
            self._judge("alone", row, together, single, view, (self._inputs, self._inputs.pick([row])))
        if not any_rows:
            raise PlaitError("check: nothing that the model returns has one part for each row of the batch")

    def _other_neighbours(self, together: Run, failed: int, error: Exception) -> None:
        """The model does not run on one row: give each row other neighbours instead."""
        count = self._inputs.rows
        for row in range(min(count, self._most)):
            picked = [row if each == row else (row + 1) % count for each in range(count)]
            other = self._run(self._inputs.pick(picked))
            if other.error is None:
                again = (self._inputs, self._inputs.pick(picked))
                view = View(row, count, both=True)
                self._judge("other neighbours", row, together, other, view, again)
        if not self._findings:
            self._note(("fails", "alone"), words.Seen("alone", failed, None, None, None, error))

    def _other_order(self, together: Run) -> None:
        if self._findings:
            return  # rows that depend on their company depend on its order as well
        order = list(reversed(range(self._inputs.rows)))
        turned = self._run(self._inputs.pick(order))
        if turned.error is not None:
            return
        for row in range(min(self._inputs.rows, self._most)):
            worst: Effect | None = None
            for one, other in zip(together.output, turned.output):
                dim = next((d for d in range(one.dim()) if one.shape[d] == self._inputs.rows), None)
                if dim is None or one.shape != other.shape:
                    continue
                found = moved(one.select(dim, row), other.select(dim, order.index(row)))
                worst = found if found is not None else worst
            self._experiments.append(Experiment("other order", row, worst))
            if worst is not None:
                self._note(("order",), words.Seen("other order", row, worst, None, together, None))

    def _padding(self) -> None:
        lengths = self._inputs.lengths or []
        width = self._inputs.width
        padded = [row for row, length in enumerate(lengths) if 0 < length < width][: self._most]
        if not padded:
            self._notes.append("No row is padded, so nothing is known about padding.")
            return
        more = 3
        while width + more in self._inputs.leaves[0].shape or width + more == self._inputs.rows:
            more += 1
        for row in padded:
            single = self._inputs.pick([row])
            plain = self._run(single)
            longer = self._run(single.longer(more, self._inputs))
            if plain.error is not None or longer.error is not None:
                continue
            view = View(0, 1, lengths[row], width, width + more)
            self._judge("longer padding", row, plain, longer, view, (single, single.longer(more, self._inputs)))
            other = single.other_padding()
            if any(one is not two for one, two in zip(other.leaves, single.leaves)):
                changed = self._run(other)
                view = View(0, 1, lengths[row], width, width)
                self._judge("other padding", row, plain, changed, view, (single, single.other_padding()))

    def _judge(
        self, name: str, row: int, a: Run, b: Run, view: View, pair: tuple[Inputs, Inputs]
    ) -> None:  # fmt: skip
        found = outputs_moved(a, b, view)
        if found is not None and found.relative < 1e-2 and self._rounding(pair, view):
            self._experiments.append(Experiment(name, row, found, rounding=True))
            return
        self._experiments.append(Experiment(name, row, found))
        if found is None:
            return
        guilty = culprit(a, b, view)
        if name == "other padding" and ("padding", words.place_key(guilty)) not in self._findings:
            # Zeros may well be what a sum over the padding counts on: worth knowing, and not wrong.
            note = words.relies(guilty)
            self._notes += [note] if note not in self._notes else []
            return
        key = (words.kind(name), words.place_key(guilty))
        self._note(key, words.Seen(name, row, found, guilty, a, None))

    def _rounding(self, pair: tuple[Inputs, Inputs], view: View) -> bool:
        """Whether the difference goes away in double precision."""
        try:
            precise: Any = copy.deepcopy(self._model).double() if isinstance(self._model, torch.nn.Module) else None
        except Exception:  # a model that can't be copied
            return False
        if precise is None:
            return False
        a, b = (self._run(each.double(), model=precise) for each in pair)
        return a.error is None and b.error is None and outputs_moved(a, b, view) is None

    def _note(self, key: tuple[Any, ...], seen: words.Seen) -> None:
        first = self._findings.get(key)
        if first is None:
            self._findings[key] = seen
        else:
            first.rows += [seen.row] if seen.row not in first.rows else []
            if seen.effect is not None and first.effect is not None and seen.effect.relative > first.effect.relative:
                first.effect = seen.effect
            if seen.culprit is not None:
                first.others.append(seen.culprit)


def _sentence(error: Exception) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"
