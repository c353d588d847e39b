"""The pytest plugin: a marker that fails a test on findings, and fixtures that assert facts about models.

It does nothing, and imports neither torch nor the rest of plait, until a test uses the marker or a fixture.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

FOLDER = "plait_graphs"
_DEFAULT = ("correctness", "suspicious", "numerics")
_MARKER = (
    "plait(*select, ignore=()): record the test and fail it on findings of these rules or categories"
    f" (default: {', '.join(_DEFAULT)})"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    parser.getgroup("plait").addoption(
        "--plait-update", action="store_true", help="write the graphs that assert_same_graph compares with"
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Record a test that carries the marker; when it passes, what plait finds decides."""
    marker = item.get_closest_marker("plait")
    if marker is None:
        return (yield)
    import plait

    unknown = sorted(set(marker.kwargs) - {"ignore"})
    if unknown:
        raise pytest.UsageError(f"{item.nodeid}: the marker plait takes no argument {unknown[0]!r}")
    ignore = marker.kwargs.get("ignore", ())
    with plait.record() as recording:
        result = yield
    try:
        found = plait.explain(
            recording, select=marker.args or _DEFAULT, ignore=(ignore,) if isinstance(ignore, str) else ignore
        )
    except plait.PlaitError as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None
    if found:
        pytest.fail(f"plait found something in this test:\n{found}", pytrace=False)
    return result


@pytest.fixture
def assert_independent() -> Callable[..., None]:
    """`assert_independent(model, batch)`: each row gets the result that it would get alone or in another order.

    Takes the options of `plait.check`.
    """
    return _checker(lambda finding: finding.cause != "padding-reaches-output", "rows are not independent")


@pytest.fixture
def assert_padding_invariant() -> Callable[..., None]:
    """`assert_padding_invariant(model, batch, lengths)`: padding does not reach the result; takes a list of examples
    of different length as well."""
    check = _checker(lambda finding: finding.cause == "padding-reaches-output", "padding reaches the result")

    def assert_invariant(model: Callable[..., Any], batch: Any, lengths: Any = None, **options: Any) -> None:
        __tracebackhide__ = True
        check(model, batch, lengths=lengths, **options)

    return assert_invariant


def _checker(matters: Callable[[Any], bool], sentence: str) -> Callable[..., None]:
    def assert_check(model: Callable[..., Any], batch: Any, **options: Any) -> None:
        __tracebackhide__ = True
        import plait

        findings = [each for each in plait.check(model, batch, **options).findings if matters(each)]
        if findings:
            pytest.fail("\n".join([f"{sentence}:", *map(str, findings)]), pytrace=False)

    return assert_check


@pytest.fixture
def assert_gradients_reach() -> Callable[..., None]:
    """`assert_gradients_reach(model, loss)`: every trainable parameter of the model gets a gradient from `loss()`.

    `loss` is a function without arguments that computes the loss; gradients of the model are left as they were.
    """

    def assert_reach(model: Any, loss: Callable[[], Any], ignore: tuple[str, ...] = ()) -> None:
        __tracebackhide__ = True
        import torch

        import plait

        named = [(name, each) for name, each in model.named_parameters() if each.requires_grad and name not in ignore]
        with plait.record() as recording:
            gradients = torch.autograd.grad(loss(), [each for _, each in named], allow_unused=True)
        missing = [name for (name, _), gradient in zip(named, gradients) if gradient is None]
        if not missing:
            return
        lines = [f"the loss gives no gradient to {', '.join(missing)} ({len(missing)} of {len(named)} parameters)"]
        for each in recording.decisions:
            test = None if each.site is None else each.site.test
            if each.site is not None and test is not None:
                lines.append(f"  {each.site.file}:{each.site.line}  `{test.expression}` was {each.outcome}")
        graph = recording.graph
        for node in graph.nodes:
            site = graph.site_of(node)
            if node.cut is not None and site is not None:
                lines.append(f"  {site.file}:{site.line}  `{site.expression}` cuts the graph: {node.cut}")
        pytest.fail("\n".join(lines), pytrace=False)

    return assert_reach


@pytest.fixture
def assert_same_graph(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`assert_same_graph(function, *args)`: the call builds the graph that was stored for this test.

    The stored one is in the folder `plait_graphs` next to the test; `pytest --plait-update` writes it. Other sizes are
    no difference unless `sizes=True`. `name` tells several graphs of one test apart.
    """

    def assert_same(
        function: Callable[..., Any], *args: Any, name: str = "", sizes: bool = False, **kwargs: Any
    ) -> None:
        __tracebackhide__ = True
        import plait

        test = re.sub(r"[^\w.-]+", "_", f"{request.node.name}{'-' + name if name else ''}").strip("_")
        path = Path(request.path).parent / FOLDER / f"{Path(request.path).stem}.{test}.plait"
        with plait.record() as recording:
            function(*args, **kwargs)
        if request.config.getoption("--plait-update"):
            path.parent.mkdir(exist_ok=True)
            recording.save(path, overwrite=True)
            return
        if not path.exists():
            pytest.fail(f"there is no stored graph {path.name}: run pytest --plait-update once", pytrace=False)
        with plait.load(path) as stored:
            found = plait.diff((stored, _last(stored)), (recording, _last(recording)))
        if found and (sizes or found.verdict != "sizes"):
            pytest.fail(
                f"the graph is not the stored one (a: stored, b: now; pytest --plait-update accepts it)\n{found}",
                pytrace=False,
            )

    return assert_same


def _last(recording: Any) -> int:
    """The last step that ran a model or a backward pass; the last step if none did."""
    steps = recording.steps
    told = [step.id for step in steps if step.kind != "rest" and step.graph is not None]
    return int(told[-1] if told else len(steps) - 1)
