"""What the experiments mean, in three sentences and with the lines."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import Any

from plait.checks._capture import Run
from plait.checks._compare import Culprit, Effect
from plait.graph import Site
from plait.graph._notation import number, op_name, shorten
from plait.recording import Failure, Place

_PADDING = ("longer padding", "other padding")
_NORMS = ("batch_norm",)


@dataclass
class Seen:
    """A row that moved in an experiment; `rows` and `others` gather what else moved in the same way."""

    experiment: str
    row: int
    effect: Effect | None
    culprit: Culprit | None
    run: Run | None
    error: Exception | None
    rows: list[int] = field(default_factory=list)
    others: list[Culprit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows.append(self.row)


def kind(experiment: str) -> str:
    """What an experiment is about: padding, or company."""
    return "padding" if experiment in _PADDING else "company"


def place_key(found: Culprit) -> tuple[Any, ...]:
    """One key for all rows that the same line moves."""
    site = _site(found)
    return ("nowhere",) if site is None else (site.file, site.line, site.column)


def finding(seen: Seen, rows: int) -> Failure:
    """The finding."""
    if seen.error is not None:
        return _fails(seen, rows)
    guilty = seen.culprit
    if guilty is not None and guilty.kind == "decision" and kind(seen.experiment) == "company":
        return _decision(seen, guilty, rows)
    if kind(seen.experiment) == "padding":
        return _padding(seen, guilty)
    return _mixes(seen, guilty, rows)


def relies(guilty: Culprit) -> str:
    """The remark on a result that depends on what stands in the padding, though not on how much of it there is."""
    site = _site(guilty)
    what = "The model" if guilty.result is None else f"`{_text(site, guilty.result.op)}`{_at(site)}"
    return f"{what} counts on the numbers that stand in the padding."


def _decision(seen: Seen, guilty: Culprit, rows: int) -> Failure:
    found = guilty.divergence
    assert found is not None
    site = _site(guilty)
    outcome = None if found.a is None else found.a.outcome
    values = ""
    if found.a is not None and found.b is not None and found.a.left is not None and found.b.left is not None:
        values = f" ({number(found.a.left)} together, {number(found.b.left)} for row {seen.row} alone)"
    made = None if guilty.result is None or guilty.result.site is None else guilty.result.site
    return _failure(
        "decision-mixes-examples", "suspicious",
        f"`{found.label}`{_at(site)} is decided once for all {rows} rows: it is {outcome} together and {not outcome}"
        f" for {_rows(seen.rows)} alone{values}.",
        f"What {_the_rows(seen.rows)} is given depends on which others share the batch; it changes by"
        f" {_size(seen.effect)}.",
        "Decide for each row: `torch.where` on a condition with one entry a row, or write the model for one example and"
        " let `plait.batch` run it.",
        _place(site, "decision"), _place(made, "mixed"),
    )  # fmt: skip


def _mixes(seen: Seen, guilty: Culprit | None, rows: int) -> Failure:
    result = None if guilty is None else guilty.result
    site = None if result is None else result.site
    what = "the model" if result is None else f"`{_text(site, result.op)}`{_at(site)}"
    if result is not None and result.module:
        what = f"{what} ({op_name(result.op)} in {result.module})"
    if result is not None and op_name(result.op) in _NORMS:
        cure = (
            "In training that is what BatchNorm does: use `eval()` where rows must not depend on each other, or"
            " LayerNorm or GroupNorm."
        )
    else:
        cure = "Reduce over the dimensions of one row only, never over the one that counts the rows."
    how = {"other order": "in another order", "other neighbours": "beside other rows"}.get(seen.experiment, "alone")
    return _failure(
        "rows-depend-on-each-other", "suspicious",
        f"{what} mixes the {rows} rows of the batch: {_rows(seen.rows)} {'get' if len(seen.rows) > 1 else 'gets'}"
        f" another result {how}.",
        f"The result changes by {_size(seen.effect)} with the company that a row has.", cure, _place(site, "mixed"),
    )  # fmt: skip


def _padding(seen: Seen, guilty: Culprit | None) -> Failure:
    result = None if guilty is None else guilty.result
    parted = None if guilty is None else guilty.divergence
    site = _site(guilty) if guilty is not None else None
    if guilty is not None and guilty.kind == "decision" and parted is not None:
        what = f"the decision `{parted.label}`{_at(site)}"
    else:
        what = "the model" if result is None else f"`{_text(site, result.op)}`{_at(site)}"
    op = "" if result is None else op_name(result.op)
    how = "longer padding" if seen.experiment == "longer padding" else "other numbers in the padding"
    return _failure(
        "padding-reaches-output", "suspicious",
        f"{what} lets padding into the result: with {how} {_rows(seen.rows)} {'get' if len(seen.rows) > 1 else 'gets'}"
        " another result.",
        f"The result changes by {_size(seen.effect)} with the padding, so it depends on the longest row of the batch.",
        _CURES.get(op, "Use the lengths there (a mask, a packed sequence), or let `plait.batch` run rows as they are."),
        _place(site, "padding"),
    )  # fmt: skip


_CURES = {
    "getitem": "Take the last real step (`out[torch.arange(len(lengths)), lengths - 1]`), or pack the sequences.",
    "select": "Take the last real step (`out[torch.arange(len(lengths)), lengths - 1]`), or pack the sequences.",
    "mean": "Divide the sum over the real positions by their number: `(x * mask).sum(1) / mask.sum(1)`.",
    "sum": "Multiply by the mask before the sum.",
    "max": "Fill the padding with `-inf` before the maximum (`masked_fill`).",
    "amax": "Fill the padding with `-inf` before the maximum (`masked_fill`).",
    "softmax": "Fill the scores of the padding with `-inf` before the softmax (`masked_fill`).",
    "scaled_dot_product_attention": "Give it the mask of the padding (`attn_mask`).",
    "multi_head_attention_forward": "Give it the mask of the padding (`key_padding_mask`).",
    "batch_norm": "Normalise over the real positions only, or use LayerNorm, which looks at one position at a time.",
    "lstm": "Pack the sequences (`pack_padded_sequence`): the last state and the way back run over padding.",
    "gru": "Pack the sequences (`pack_padded_sequence`): the last state and the way back run over padding.",
    "rnn_tanh": "Pack the sequences (`pack_padded_sequence`): the last state and the way back run over padding.",
    "rnn_relu": "Pack the sequences (`pack_padded_sequence`): the last state and the way back run over padding.",
}  # fmt: skip


def _fails(seen: Seen, rows: int) -> Failure:
    error = seen.error
    assert error is not None
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not _foreign(each.filename)]
    last = frames[-1] if frames else None
    where = () if last is None else (Place("error", last.filename, last.lineno or 0, (last.line or "").strip()),)
    text = (str(error).splitlines() or [""])[0]
    return Failure(
        "fails-on-one-row", "correctness", type(error).__name__, "check", 0,
        f"The model runs on {rows} rows and fails on row {seen.row} alone"
        f" ({type(error).__name__}: {shorten(text, 90)}).",
        "The last batch of an epoch may hold a single row.",
        "Look for a `squeeze()` without a dimension, or for sizes that are taken from the batch.", where,
    )  # fmt: skip


def _foreign(file: str) -> bool:
    return f"{'/'}torch{'/'}" in file.replace("\\", "/") or "/plait/" in file.replace("\\", "/")


def _failure(
    cause: str, category: Any, fact: str, consequence: str, cure: str, *places: Place | None
) -> Failure:  # fmt: skip
    fact = fact[:1].upper() + fact[1:]
    return Failure(
        cause, category, "", "check", 0, fact, consequence, cure, tuple(each for each in places if each is not None)
    )


def _site(found: Culprit) -> Site | None:
    if found.kind == "decision" and found.divergence is not None and found.divergence.a is not None:
        return found.divergence.a.site
    if found.result is not None:
        return found.result.site
    half = None if found.divergence is None else found.divergence.a or found.divergence.b
    return None if half is None else half.site


def _place(site: Site | None, role: str) -> Place | None:
    return None if site is None else Place(role, site.file, site.line, site.expression)


def _at(site: Site | None) -> str:
    return "" if site is None else f" at {_place(site, '')}"


def _text(site: Site | None, op: str) -> str:
    return shorten(" ".join(site.expression.split()), 70) if site is not None and site.expression else op_name(op)


def _size(effect: Effect | None) -> str:
    if effect is None:
        return "something"
    if effect.difference == float("inf"):
        return "a value that is not finite"
    return f"up to {number(float(f'{effect.difference:.3g}'))} ({effect.relative:.0%} of the largest value)"


def _rows(rows: list[int]) -> str:
    if len(rows) == 1:
        return f"row {rows[0]}"
    return f"rows {', '.join(map(str, rows[:6]))}{f' and {len(rows) - 6} more' if len(rows) > 6 else ''}"


def _the_rows(rows: list[int]) -> str:
    return "it" if len(rows) == 1 else "each of them"
