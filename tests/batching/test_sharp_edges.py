"""What a person may write in a function for one example, and what must come out: right, or refused with a sentence."""

from __future__ import annotations

import gc
import threading
from collections import namedtuple
from typing import Any

import greenlet
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import plait
from plait.batching import BatchError
from plait.batching._current import local
from plait.testing import check_batch

D = torch.float64


def rows(*lengths: int, width: int = 4, grad: bool = True) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(n, width, dtype=D, requires_grad=grad) for n in lengths]


def clean() -> None:
    """Nothing of a batch is left behind."""
    assert local.rt is None
    assert torch._C._len_torch_function_stack() == 0
    assert "__call__" not in nn.Linear.__dict__ and "__call__" not in nn.LSTM.__dict__
    assert gc.isenabled()
    assert torch.is_grad_enabled()


def lanes_alive() -> int:
    gc.collect()
    here = greenlet.getcurrent()
    return sum(type(g) is greenlet.greenlet and bool(g) and g.parent is here for g in gc.get_objects())


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Any:
    yield
    clean()


# ---------------------------------------------------------------------- torch's state belongs to a lane
def test_no_grad_stays_in_its_lane() -> None:
    w = nn.Linear(4, 4).double()

    def f(x: torch.Tensor) -> torch.Tensor:
        if len(x) > 2:
            with torch.no_grad():
                h = w(x[0])
                if h.sum() > 100:  # waits inside of no_grad
                    h = h * 2
            return h + w(x[1])
        h = w(x[0])
        return h * 2 if h.sum() > 0 else h

    check_batch(f, rows(3, 1, 4, 2))


def test_grad_mode_is_part_of_the_signature() -> None:
    w = nn.Parameter(torch.ones(4, dtype=D))

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(len(x) % 2 == 0):
            h = x.sum(0) * w
        return h + x.sum(0)

    check_batch(f, rows(1, 2, 3, 4))


def test_default_dtype_and_modes_belong_to_a_lane() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        torch.set_default_dtype(torch.float64 if len(x) > 1 else torch.float32)
        try:
            if x.sum() > 0:
                return torch.ones(2) * 1.0
            return torch.zeros(2)
        finally:
            torch.set_default_dtype(torch.float32)

    xs = rows(1, 2, 3, grad=False)
    out = plait.batch(f)(xs)
    assert [o.dtype for o in out] == [torch.float32, torch.float64, torch.float64]
    with torch.device("cpu"):
        check_batch(lambda x: x.sum() + torch.ones(3).sum().double(), rows(2, 1))

    def g(x: torch.Tensor) -> torch.Tensor:
        with torch.device("cpu"):
            return x.sum(0) * 2 if x.sum() > 0 else x.sum(0)

    check_batch(g, rows(2, 1, 3))


def test_autocast() -> None:
    lin = nn.Linear(4, 4)

    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return lin(x[0]).float()
        return lin(x[0])

    xs = [x.float().detach() for x in rows(1, 2, 1, 3)]
    torch.testing.assert_close(plait.batch(f)(xs), torch.stack([f(x) for x in xs]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = plait.batch(lambda x: lin(x[0]))(xs)
        assert out.dtype == torch.bfloat16


def test_inference_mode_outside() -> None:
    lin = nn.Linear(4, 2).double()
    with torch.inference_mode():
        out = plait.batch(lambda x: lin(x).sum(0))(rows(1, 2))
    assert out.shape == (2, 2) and not out.requires_grad


# ---------------------------------------------------------------------- errors
def test_exception_in_one_example() -> None:
    done: list[int] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        try:
            if x.sum() > 1e9 or len(x) == 3:
                raise ValueError("three")
            return x.sum(0)
        finally:
            done.append(len(x))

    with pytest.raises(ValueError, match="three") as e:
        plait.batch(f)(rows(1, 2, 3, 4))
    assert "example 2 of 4" in "".join(e.value.__notes__)
    assert any("test_sharp_edges" in str(t.path) for t in e.traceback)
    del e
    assert lanes_alive() == 0
    assert sorted(done)[-1] >= 3


def test_broadcast_error_at_its_line() -> None:
    with pytest.raises(RuntimeError) as e:
        plait.batch(lambda x: x + torch.ones(3, dtype=D))(rows(2, 2))
    assert "example 0" in "".join(e.value.__notes__)
    assert e.traceback[-1].path != __file__


def test_error_that_only_the_numbers_show() -> None:
    table = nn.Embedding(3, 2)
    with pytest.raises(IndexError) as e:
        plait.batch(lambda i: table(i).sum())(torch.tensor([0, 1, 7, 2]))
    assert "example 2" in "".join(e.value.__notes__)


def test_mismatched_numbers_of_examples() -> None:
    with pytest.raises(BatchError, match=r"argument 0 has 2 examples, but argument 1 has 3"):
        plait.batch(lambda a, b: a)(rows(1, 1), rows(1, 1, 1))


def test_different_structures() -> None:
    def f(x: torch.Tensor) -> Any:
        return x if len(x) > 1 else (x, x)

    with pytest.raises(BatchError, match="example 1 returned one value, but example 0 returned a tuple of 2"):
        plait.batch(f)(rows(1, 2))
    with pytest.raises(BatchError, match="example 1 returned a tensor where example 0 returned a value of type float"):
        plait.batch(lambda x: 1.0 if len(x) == 1 else x)(rows(1, 2))


def test_random_needs_a_policy() -> None:
    with pytest.raises(
        BatchError,
        match=r"`dropout` draws random numbers \(.*test_sharp_edges.py:\d+, example 0\).*randomness=",
    ):
        plait.batch(lambda x: F.dropout(x, 0.5))(rows(2, 3))
    with pytest.raises(BatchError, match="randn"):
        plait.batch(lambda x: x + torch.randn(4, dtype=D))(rows(2, 3))
    assert plait.batch(lambda x: F.dropout(x, 0.5, training=False).sum(0))(rows(2, 3)).shape == (2, 4)


def test_random_different_and_same() -> None:
    torch.manual_seed(0)
    a = plait.batch(lambda x: F.dropout(x, 0.5), randomness="different")(torch.ones(8, 16))
    assert a.unique(dim=0).shape[0] > 4 and set(a.unique().tolist()) <= {0.0, 2.0}
    b = plait.batch(lambda x: F.dropout(x, 0.5), randomness="same")(torch.ones(8, 16))
    assert b.unique(dim=0).shape[0] == 1
    c = plait.batch(lambda x: torch.randn(3) + torch.rand_like(x[:3]), randomness="different")(torch.ones(5, 16))
    assert c.unique(dim=0).shape[0] == 5
    d = plait.batch(lambda x: torch.bernoulli(torch.sigmoid(x)) + x.clone().normal_(), randomness="different")(
        torch.ones(5, 16)
    )
    assert d.shape == (5, 16)
    x = torch.ones(4, 3, requires_grad=True)
    y = plait.batch(lambda v: F.dropout(v * 2, 0.5), randomness="different")(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach() / x.detach())


# ---------------------------------------------------------------------- state that examples would share
def test_write_to_a_buffer() -> None:
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4, dtype=D))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen += x.sum(0)
            return x.sum(0) + self.seen

    m = M()
    with pytest.raises(BatchError, match="'seen' of M, which all examples share"):
        plait.batch(m)(rows(1, 2))
    assert torch.equal(m.seen, torch.zeros(4, dtype=D))


def test_state_kept_in_a_module() -> None:
    class M(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last = x.sum(0)
            return self.last

    m = M()
    with pytest.raises(BatchError, match="keeps a value of one example in `last` of M"):
        plait.batch(m)(rows(1, 2))
    assert not hasattr(m, "last")


def test_value_of_another_example() -> None:
    seen: list[torch.Tensor] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.sum(0))
        return seen[0] + x.sum(0)

    with pytest.raises(BatchError, match="example 1 uses a value that example 0 made"):
        plait.batch(f)(rows(1, 2))
    with pytest.raises(BatchError, match="after plait.batch had returned"):  # noqa: RUF043
        seen[0] + 1


def test_write_to_a_global_tensor() -> None:
    total = torch.zeros(4, dtype=D)

    def f(x: torch.Tensor) -> torch.Tensor:
        total[0] = x.sum()
        return x.sum(0)

    with pytest.raises(BatchError, match=r"writes to a tensor of shape \[4\] that all examples share"):
        plait.batch(f)(rows(1, 2))
    with pytest.raises(BatchError, match="`add_` writes to"):
        plait.batch(lambda x: total.add_(1))(rows(1, 2))


def test_reading_a_buffer_is_fine() -> None:
    bn = nn.BatchNorm1d(4).double().eval()
    bn.running_mean += 0.5
    check_batch(lambda x: bn(x), rows(2, 3, 1))


def test_batch_norm_in_training_mode() -> None:
    bn = nn.BatchNorm1d(4).double()
    with pytest.raises(BatchError, match="which all examples share"):
        plait.batch(bn)(rows(2, 3))
    free = nn.BatchNorm1d(4, track_running_stats=False).double()
    check_batch(lambda x: free(x), rows(2, 3, 2))


# ---------------------------------------------------------------------- writes in place
def test_in_place_and_tensor_views() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x.clone()
        first, block = y[0], y.view(-1, 2, 2)
        y *= 2
        first += 1
        block[0, 0] = x[0, 2:] * 3
        y[:, 3] = 0.5
        a, b = y[:, :2], y.narrow(1, 2, 2)
        a.add_(b)
        return y, first, block, a

    check_batch(f, rows(2, 1, 3))


def test_write_to_an_example() -> None:
    with pytest.raises(BatchError, match="clone it first"):
        plait.batch(lambda x: x.add_(1))(rows(1, 2, grad=False))
    with pytest.raises(BatchError, match="clone it first"):
        plait.batch(lambda x: x[0].mul_(2))(rows(1, 2, grad=False))


def test_buffer_filled_row_by_row() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(len(x) + 1, 4, dtype=D)
        for t in range(len(x)):
            out[t + 1] = out[t] * 0.5 + x[t]
        return out

    check_batch(f, rows(2, 1, 3), double_backward=True)


def test_ellipsis_and_full_slices_in_an_index() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        first, last = y[..., 0], y[..., -1, :]
        y[..., 1, :] += 1
        return y, first, last, y[..., :2], y[0, ..., None], y.sum()[..., None, None], y[..., -1, :] * y[1, :]

    check_batch(f, rows(2, 3, 4))
    report = check_batch(lambda x: torch.tanh(x)[..., 0].mean(-1) + torch.tanh(x)[..., -1, :], rows(2, 3, 4))
    assert all(g.groups == 1 for name, g in report.groups.items() if name != "tanh"), str(report)
    with pytest.raises(IndexError, match="too many indices"):
        plait.batch(lambda x: x[0, :, :])(rows(2))
    with pytest.raises(IndexError, match="too many indices"):
        plait.batch(lambda x: x[..., 0, 0, 0])(rows(2))


def test_reshape_is_never_guessed() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = (x * 2).t().contiguous()
        flat = y.reshape(-1)
        y += 1
        return flat

    with pytest.raises(BatchError, match="may or may not"):
        plait.batch(f)(rows(2, 3))


# ---------------------------------------------------------------------- autograd inside
def test_detach() -> None:
    def f(x: torch.Tensor) -> Any:
        h = x.sum(0)
        return torch.stack([h.detach(), h * 2]), h.detach() * h, h if len(x) > 1 else h.detach()

    check_batch(f, rows(1, 2, 3), double_backward=True)


@pytest.mark.parametrize("what", ["requires_grad_", "hook", "grad", "backward"])
def test_refused_autograd(what: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        h = x.sum(0).detach() if what == "requires_grad_" else x.sum(0)
        if what == "requires_grad_":
            h.requires_grad_()
        elif what == "hook":
            h.register_hook(lambda g: g)
        elif what == "grad":
            torch.autograd.grad(h.sum(), x)
        else:
            h.sum().backward()
        return h

    with pytest.raises(BatchError, match="inside plait.batch"):  # noqa: RUF043
        plait.batch(f)(rows(1, 2))


def test_hooks_on_parameters_and_modules() -> None:
    lin = nn.Linear(4, 4).double()
    calls: list[int] = []
    lin.weight.register_hook(lambda g: g * 2)
    lin.register_forward_hook(lambda m, a, out: calls.append(1))
    check_batch(lambda x: lin(x).sum(0), rows(1, 2))
    assert len(calls) == 4


def test_double_backward() -> None:
    lin, rnn = nn.Linear(4, 4).double(), nn.GRU(4, 4).double()
    check_batch(lambda x: torch.tanh(lin(rnn(x)[0])).pow(2).sum(0), rows(3, 1, 2), double_backward=True)


def test_backward_twice() -> None:
    w = torch.ones(4, dtype=D, requires_grad=True)
    y = plait.batch(lambda x: (x * w).sum())(rows(1, 2)).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_parameter_written_before_backward() -> None:
    w = torch.ones(4, dtype=D, requires_grad=True)
    y = plait.batch(lambda x: (x * w).sum())(rows(1, 2)).sum()
    with torch.no_grad():
        w += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_torch_func_over_batch() -> None:
    xs = torch.randn(3, 4)
    f = plait.batch(lambda x: (x * x).sum())
    assert torch.allclose(torch.func.grad(lambda x: f(x).sum())(xs), 2 * xs)
    assert "torch.func" in f.report.loop


# ---------------------------------------------------------------------- sizes
def test_zero_examples() -> None:
    with pytest.raises(BatchError, match="no examples"):
        plait.batch(lambda x: x)([])


def test_small_cases() -> None:
    check_batch(lambda x: x.sum(0), rows(3))
    check_batch(lambda x: x.sum(0), rows(0, 2, 0))
    check_batch(lambda x: x * 2, rows(0, 0))
    check_batch(lambda x: torch.tanh(x), rows(0, 2))
    check_batch(lambda x: x, rows(1, 2))
    check_batch(lambda x: (x, {"a": [x.sum(), 3], "b": None}), rows(2, 2))

    def loop(x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(4, dtype=D)
        for r in x:
            h = torch.tanh(h + r)
        return h

    check_batch(loop, rows(0, 3, 1))
    check_batch(lambda x: x if len(x) == 0 else x.cumsum(0), rows(0, 2))


def test_outputs_of_all_kinds() -> None:
    Point = namedtuple("Point", "x y")
    out = plait.batch(lambda x: Point(x.sum(), {"n": len(x), "f": float(x.sum()) > 0}))(rows(1, 2))
    assert out.x.shape == (2,) and out.y["n"] == [1, 2] and all(isinstance(b, bool) for b in out.y["f"])
    w = torch.ones(3, requires_grad=True)
    shared = plait.batch(lambda x: w)(rows(1, 2))
    shared.sum().backward()
    assert w.grad.tolist() == [2, 2, 2]


def test_untaken_arm_never_runs() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sqrt() if x > 0 else x * 1.0

    x = torch.tensor([-1.0, 4.0], requires_grad=True)
    plait.batch(f)(x).sum().backward()
    assert x.grad.tolist() == [1.0, 0.25]


def test_ragged_masks() -> None:
    check_batch(lambda x: (x[x > 0].sum(), torch.tanh(x[x.sum(1) > 0] * 2), x.nonzero().shape[0]), rows(3, 1, 4))


def test_jagged_layout_and_dims() -> None:
    xs = rows(1, 3)
    out = plait.batch(lambda x: x * 2, layout=torch.jagged)(xs)
    assert out.is_nested and [len(t) for t in out.unbind()] == [1, 3]
    back = plait.batch(lambda x: x.sum(0))(out.detach())
    assert torch.allclose(back, torch.stack([2 * x.sum(0) for x in xs]))
    a = torch.randn(5, 3)
    assert torch.equal(plait.batch(lambda p, x: x * p, in_dims=(None, 1), out_dims=1)(torch.tensor(2.0), a), a * 2)
    with pytest.raises(BatchError, match="in_dims has 1 entries"):
        plait.batch(lambda p, x: x, in_dims=(0,))(a, a)


# ---------------------------------------------------------------------- signatures
def test_constants_that_differ() -> None:
    check_batch(lambda x: x.sum(dim=len(x) % 2) if len(x) == 4 else x.sum(0), rows(4, 3, 4, 5))
    check_batch(lambda x: x.sum(0) + (1.1 if len(x) == 1 else 1.2), rows(1, 2, 1))
    check_batch(lambda x: x.sum(0) * (0.0 if len(x) == 1 else -0.0), rows(1, 2, 1, 2))
    check_batch(lambda x: F.elu(x.sum(0), 1.0 if len(x) == 1 else 0.5) + F.relu(x.sum(0)), rows(1, 2, 1))
    check_batch(lambda x: x.sum(0, keepdim=True) if len(x) == 1 else x.sum(1, keepdim=False), rows(1, 4))


def test_operand_shared_by_chance() -> None:
    base = torch.eye(4, dtype=D)

    def f(x: torch.Tensor) -> torch.Tensor:
        return (base * (1.0 if len(x) == 1 else 2.0)) @ x[0]

    check_batch(f, rows(1, 2, 1))


def test_weights_that_differ() -> None:
    experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)]).double()
    check_batch(lambda x: experts[len(x) % 2](x[0]), rows(1, 2, 3))


def test_embedding_tables_of_different_width() -> None:
    """Found by the tagger: two tables of equal kind but other widths shared one program."""
    a, b = nn.Embedding(5, 2), nn.Embedding(5, 3)
    check_batch(lambda i: (a(i), b(i)), [torch.tensor(3), torch.tensor(1)])


# ---------------------------------------------------------------------- where it is called
def test_nested_batch() -> None:
    inner = plait.batch(lambda r: torch.tanh(r).sum())
    check_batch(lambda x: inner(x) * 2 if len(x) > 1 else inner(x), rows(1, 2, 3))
    assert "inside of another" in inner.report.loop


def test_threads_are_independent() -> None:
    xs = rows(2, 1, 3, grad=False)
    want = torch.stack([torch.tanh(x).sum(0) for x in xs])
    results: list[Any] = []

    def work() -> None:
        for _ in range(5):
            results.append(plait.batch(lambda x: torch.tanh(x).sum(0) if x.sum() > -1e9 else x)(xs))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 15 and all(torch.allclose(r, want) for r in results)


def test_decorator_method_and_module() -> None:
    @plait.batch(in_dims=(0, None))
    def f(x: torch.Tensor, k: float) -> torch.Tensor:
        return x.sum(0) * k

    assert f(rows(1, 2), 2.0).shape == (2, 4)

    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(4, 2).double()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.lin(x).sum(0)

        @plait.batch
        def scores(self, x: torch.Tensor) -> torch.Tensor:
            return self.lin(x).max()

    m = M()
    b = plait.batch(m)
    assert isinstance(b, nn.Module) and set(b.state_dict()) == {"module.lin.weight", "module.lin.bias"}
    assert b.eval().module.training is False and b(rows(1, 2)).shape == (2, 2)
    assert m.scores(rows(1, 2)).shape == (2,)


def test_all_parameters() -> None:
    m = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 2)}).double()

    def f(x: torch.Tensor) -> torch.Tensor:
        return m["a"](x[0]) if len(x) else m["b"](torch.zeros(4, dtype=D))

    plait.batch(f)(rows(1, 2)).sum().backward()
    assert m["b"].weight.grad is None
    plait.batch(f, all_parameters=True)(rows(1, 2)).sum().backward()
    assert m["b"].weight.grad.abs().sum() == 0


# ---------------------------------------------------------------------- cells
def test_cell_that_reads_a_value() -> None:
    @plait.cell
    def bad(x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x

    with pytest.raises(
        BatchError, match=r"the cell 'bad' \(.*test_sharp_edges.py:\d+\) reads a value.*decision outside"
    ):
        plait.batch(lambda x: bad(x[0]))(rows(1, 2))


def test_cell_with_random_numbers_or_outside_values() -> None:
    @plait.cell
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return x + torch.randn(4, dtype=D)

    with pytest.raises(BatchError, match="draws random numbers"):
        plait.batch(lambda x: noisy(x[0]))(rows(1, 2))

    def outside(x: torch.Tensor) -> torch.Tensor:
        h = x.sum(0)

        @plait.cell
        def inner(a: torch.Tensor) -> torch.Tensor:
            return a + h

        return inner(x[0])

    with pytest.raises(BatchError, match="not among its arguments"):
        plait.batch(outside)(rows(1, 2))


def test_cell_that_uses_the_length() -> None:
    @plait.cell
    def mean(x: torch.Tensor) -> torch.Tensor:
        return x.sum(0) / x.shape[0]

    @plait.cell
    def repeated(x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        for _ in range(x.shape[0]):
            h = torch.tanh(h) * 2
        return h

    check_batch(lambda x: (mean(x), repeated(x, x[0])), rows(1, 2, 3, 2))


def test_cell_sees_new_weights_in_the_next_call() -> None:
    scale = {"k": torch.tensor(2.0, dtype=D), "c": 1.0}

    @plait.cell
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * scale["k"] + scale["c"]

    b = plait.batch(lambda x: f(x[0]))
    xs = rows(1, 2, grad=False)
    for k, c in ((2.0, 1.0), (3.0, 5.0)):
        scale["k"], scale["c"] = torch.tensor(k, dtype=D), c
        assert torch.allclose(b(xs), torch.stack([x[0] * k + c for x in xs]))


def test_module_as_cell() -> None:
    @plait.cell
    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(4, 4).double()

        def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.lin(x) + h)

    step = Step()

    def f(x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(4, dtype=D)
        for r in x:
            h = step(r, h)
        return h

    report = check_batch(f, rows(1, 2, 3))
    assert report.groups["Step"].calls == 6 and report.groups["Step"].groups == 3


# ---------------------------------------------------------------------- what is reported
def test_report() -> None:
    b = plait.batch(lambda x: x.sum(0) if x.sum() > 0 else x[x > 0].sum() * x.mean(0))
    b(rows(1, 2, 3, 4))
    text = str(b.report)
    assert "4 examples" in text and "value read" in text and "test_sharp_edges.py" in text
    with pytest.raises(BatchError, match="fallback='error'"):
        plait.batch(lambda x: x[x > 0].sum(), fallback="error")(rows(1, 2))


def test_op_without_a_batched_form() -> None:
    b = plait.batch(lambda x: torch.linalg.matrix_norm(x @ x.t()))
    xs = rows(2, 3, 2)
    assert torch.allclose(b(xs), torch.stack([torch.linalg.matrix_norm(x @ x.t()) for x in xs]))
    assert b.report.vmapped


def test_long_chain() -> None:
    """No recursion anywhere: a chain of 5,000 nodes an example."""
    lin = nn.Linear(2, 2).double()

    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2_500):
            x = torch.tanh(lin(x))
        return x

    out = plait.batch(f)(torch.ones(2, 2, dtype=D))
    out.sum().backward()
    assert lin.weight.grad is not None


def test_values_that_only_decide_have_no_gradient() -> None:
    """sqrt at 0 has an infinite slope: in the loop nothing goes back through it, so there is no NaN."""

    @plait.cell
    def step(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a * 2, (a * a).sum().sqrt()

    def f(x: torch.Tensor) -> torch.Tensor:
        h, size = step(x[0])
        if (x[0] * x[0]).sum().sqrt() > 0.1 and size > 0:
            return h
        far = (x * x).sum().sqrt()
        return far * h if len(x) == 3 and far > 0 else h

    xs = [torch.zeros(2, 4, dtype=D, requires_grad=True), *rows(1, 3)]
    check_batch(f, xs)


def test_what_cannot_batch_runs_as_the_loop_next_time() -> None:
    scale = torch.ones((), dtype=D, requires_grad=True)

    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            x = torch.tanh(x) * scale
            if x.sum() > 0:
                x = x * 0.5
        return x.sum()

    unlike = [torch.randn(3, 2 + k, dtype=D) for k in range(8)]
    b = plait.batch(f)
    first = b(unlike)
    assert b.report.width == 1 and not b.report.loop
    torch.testing.assert_close(b(unlike), first)
    assert "nothing to run together" in b.report.loop and "plain loop" in str(b.report)
    for _ in range(15):
        b(unlike)
    assert not b.report.loop  # tried again
    for _ in range(31):
        b(unlike)
        assert b.report.loop  # for longer this time
    b(unlike)
    assert not b.report.loop
    few = plait.batch(f)
    few(unlike[:1])
    few(unlike[:1])
    assert not few.report.loop


def test_the_loop_refuses_what_the_lanes_refuse() -> None:
    outer = plait.batch(lambda n: plait.batch(lambda x: (x, x) if len(x) > 1 else x)(n))
    with pytest.raises(BatchError, match="example 1 returned a tuple of 2, but example 0 returned one value"):
        outer([rows(1, 2)])

    def broken(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")

    xs = rows(1, 2)
    with pytest.raises(ValueError, match="no") as e:
        torch.func.vmap(lambda z: plait.batch(broken)(xs))(torch.ones(1))
    assert "example 0 of 2" in "".join(e.value.__notes__)


def test_a_decision_over_a_view_sees_the_write() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        h = x * 1
        first = h[0]
        if first.sum() > 1e9:  # everything waits once
            return h.sum()
        total = h.sum(1)
        one = total[0]
        total.add_(100)
        return h.sum() if one > 50 else h.mean()

    check_batch(f, [(x,) for x in rows(2, 3, 4)])


def test_every_kind_of_decision() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        h = x.sum() * 0 + 0.1
        single = h.float()
        many = torch.tensor(3) + (x.shape[0] - 3)
        taken = [
            single > 0.1, single >= 0.1, single < 0.1, single <= 0.1, h > 0.1, h <= 1, h > 0.1, many == 3, many != 3,
            many > 2.5, many >= 3, single == single, single > float("inf"), single < 1e39, h > single,
        ]  # fmt: skip
        total = x.sum()
        for number, each in enumerate(taken):
            total = total * 2 if each else total + number
        return total

    check_batch(f, [(x,) for x in rows(2, 3, 4)])


def test_operators_from_both_sides() -> None:
    w = torch.eye(4, dtype=D)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = 2 - (3.0 + x) * 2 / (1 + x * x) - -x
        y = 1 / (y * y + 1) + (w @ x[0] if len(x) > 2 else x[0] @ w)
        return y.sum() + (torch.ones(4, dtype=D) * y - (y + 0.0) * 0.5).sum()

    check_batch(f, [(x,) for x in rows(2, 3, 4)])
    with pytest.raises(TypeError):
        plait.batch(lambda x: x + "a")(rows(2, 3))
