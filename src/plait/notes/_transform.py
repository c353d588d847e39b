"""Calls that a transform of torch.func refuses, and a truth that was asked of many numbers at once."""

from __future__ import annotations

from plait.notes._words import at, code, failure, made, name, place, says
from plait.recording import Facts, Failure

_SIZED = {"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "_unique2", "__getitem__"}
_RANDOM = {
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli", "bernoulli_",
    "dropout", "normal", "normal_", "uniform_", "multinomial", "exponential_", "random_", "poisson",
}  # fmt: skip


def refused(facts: Facts) -> Failure | None:
    """Why a lane of a transform can't do this."""
    if not facts.transform:
        return _many(facts)
    if facts.target is None or not any(each.batched for each in (facts.target, *facts.arguments)):
        return None
    expression = says(facts.site, f"`{facts.call}`")
    test = None if facts.site is None else facts.site.test
    batch = "`plait.batch` runs the function as it stands and lets each example go its own way"
    if facts.kind == "read":
        asked = code(test.expression) if test is not None else expression
        return failure(
            facts, "data-dependent-decision",
            f"Python asks for one answer to {asked}{at(facts.site)}, but under the transform it stands for many"
            " examples at once.",
            "The examples may disagree, and Python can take one way only.",
            f"{batch}; `torch.where` computes both ways and chooses.", place(facts.site, "decision"),
            category="dynamism",
        )  # fmt: skip
    if facts.call in _SIZED:
        return failure(
            facts, "data-dependent-decision",
            f"the size of {expression}{at(facts.site)} depends on the numbers, so it differs from example to example.",
            "Under the transform all examples are one tensor, which has one size.",
            f"{batch}; `torch.where` or a mask keeps the size fixed.", place(facts.site, "decision"),
            category="dynamism",
        )  # fmt: skip
    if facts.kind == "write" and not facts.target.batched:
        born = None if facts.target.value is None else made(facts.graph, facts.target.value)
        what = name(facts.graph, facts.target.value) if facts.target.value is not None else "a tensor"
        return failure(
            facts, "write-into-view",
            f"{expression}{at(facts.site)} writes numbers of one example into {what}, which all examples share.",
            "There is one tensor and many examples, so what it should hold is not defined.",
            f"Make it from the example (`x.new_zeros(...)`), or build a new tensor with `torch.stack`; {batch}.",
            place(facts.site, "written"), place(born, "made"),
        )  # fmt: skip
    if facts.call in _RANDOM:
        return failure(
            facts, "data-dependent-decision",
            f"{expression}{at(facts.site)} draws random numbers under the transform.",
            "It is not said whether all examples get the same numbers or each its own.",
            'Say it: `torch.vmap(f, randomness="different")` or `"same"`.', place(facts.site, "decision"),
            category="dynamism",
        )  # fmt: skip
    return None


def _many(facts: Facts) -> Failure | None:
    target = facts.target
    if facts.kind != "read" or facts.call != "bool" or target is None or target.shape == ():
        return None
    count = 1
    for extent in target.shape:
        count *= extent
    if count == 1:
        return None
    test = None if facts.site is None else facts.site.test
    asked = code(test.expression) if test is not None else says(facts.site, "a test")
    return failure(
        facts, "data-dependent-decision",
        f"{asked}{at(facts.site)} has {count} answers (shape {list(target.shape)}), and Python asks for one.",
        "It was written for one example and is given many: each row may want to go its own way.",
        "`plait.batch` runs the function for one example on many; `torch.where` computes both ways and chooses;"
        " `.any()` or `.all()` makes one decision for all rows.",
        place(facts.site, "decision"), category="dynamism",
    )  # fmt: skip
