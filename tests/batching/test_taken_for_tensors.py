"""Where PyTorch takes a value for a tensor without asking: it works as in the loop or is refused, and never crashes."""

from __future__ import annotations

import collections
import copy
import io
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

import plait
from plait.batching._core_choice import NATIVE
from plait.batching._lazy import BatchError
from plait.testing import check_batch

XS = [torch.randn(n, 4, generator=torch.Generator().manual_seed(n)) for n in (3, 2, 4, 2)]
GIVEN = [(x.clone().requires_grad_(True),) for x in XS]
torch.manual_seed(0)
LINEAR, GRU = nn.Linear(4, 4), nn.GRU(4, 3, batch_first=True)
W, SQUARE = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4, 4))


# ---------------------------------------------------------------------- torch.autograd.Function
class Scaled(torch.autograd.Function):
    """x * x * w, and its own derivative: twice what it should be, so that one sees whose it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Any:
        ctx.save_for_backward(x, w)
        return x * x * w, (x + w).detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, w = ctx.saved_tensors
        g = 2 * grads[0]
        return 2 * x * g * w, (x * x * g).sum_to_size(w.shape)


class ThroughNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.from_numpy(np.exp(x.detach().numpy()))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * ctx.saved_tensors[0]


kept_since_import = Scaled.apply


def function_of_own(x: Tensor) -> Tensor:
    a, b = Scaled.apply(LINEAR(x), W)  # type: ignore[no-untyped-call]
    return a.sum() + b.sum()


def function_in_a_loop(x: Tensor) -> Tensor:
    h = torch.zeros(4)
    for row in x:
        h = torch.tanh(kept_since_import(h + LINEAR(row), W)[0])  # type: ignore[no-untyped-call]
        if h.sum() > 1:
            h = h * 0.5
    return h.sum()


@plait.cell
def step(row: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(kept_since_import(row + h, W)[0])  # type: ignore[no-untyped-call]


def function_in_a_cell(x: Tensor) -> Tensor:
    h = torch.zeros(4)
    for row in x:
        h = step(row, h)
    return h.sum()


def function_of_shared_tensors(x: Tensor) -> Tensor:
    return (x * kept_since_import(W, W)[0]).sum()  # type: ignore[no-untyped-call]


def function_through_numpy(x: Tensor) -> Tensor:
    return ThroughNumpy.apply(LINEAR(x)).sum()  # type: ignore[no-untyped-call, no-any-return]


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return 2 * grads[0]


class InPlaceThroughNumpy(InPlace):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(float(x.numpy().sum()))


# ---------------------------------------------------------------------- what runs alone wants gradients too
def masked_parameter(x: Tensor) -> Tensor:
    return (W[x[0] > 0] * 2).sum() + (W.masked_select(x[-1] > 0) ** 2).sum()


def rows_of_a_parameter(x: Tensor) -> Tensor:
    return SQUARE[torch.nonzero(x[0] > 0)[:, 0]].pow(2).sum() + (x @ SQUARE).masked_select(x > 0).sum()


def packed(x: Tensor) -> Tensor:
    out, h = GRU(pack_padded_sequence(x.unsqueeze(0), [len(x)], batch_first=True))
    return pad_packed_sequence(out, batch_first=True)[0].sum() + h.pow(2).sum()


def packed_unsorted(x: Tensor) -> Tensor:
    out, h = GRU(pack_sequence([x[:1], x], enforce_sorted=False))
    return out.data.sum() + h.pow(2).sum()


def least_squares(x: Tensor) -> Tensor:
    return torch.linalg.lstsq(x.t() @ x + torch.eye(4) + SQUARE.t() @ SQUARE, x.t()).solution.sum()


# ---------------------------------------------------------------------- numbers of values where PyTorch wants numbers
def made_of_numbers(x: Tensor) -> Tensor:
    t = torch.tensor([[x[0, 0], 1.0], [x[1, 1], len(x)]]) + torch.as_tensor([x.sum(), x.mean()])
    return (LINEAR(x)[0, :2] * t).sum() + x.new_tensor([x[0, 0], 2]).sum()


def sizes_of_numbers(x: Tensor) -> Tensor:
    n = (x > 0).sum()
    return torch.arange(n).sum() * LINEAR(x).mean() + torch.ones(n, 2).sum() + torch.full((2,), n).sum()


def as_numpy(x: Tensor) -> Tensor:
    a = x.detach()
    return x.sum() * (float(np.asarray(a).mean()) + a.numpy().max() + np.tanh(a[0, 0]))


def as_text(x: Tensor) -> Tensor:
    y = x.detach()  # with a gradient, the text names what made the tensor
    return x.sum() * len(f"{y} {x.sum():.3f} {y.sum()!r}") + len(str(y))


def copies(x: Tensor) -> Tensor:
    again = copy.copy(x) + copy.deepcopy(x)
    torch.save(x, io.BytesIO())
    assert pickle.dumps(x)
    return x.sum() * 2 + again.sum()


def weakly(x: Tensor) -> Tensor:
    y = x * 2
    ref = weakref.ref(y)
    z = ref()
    assert z is y
    del y, z
    assert ref() is None
    return x.sum()


# ---------------------------------------------------------------------- kinds of tuples
def names_of_results(x: Tensor) -> Tensor:
    a = x.t() @ x + torch.eye(4)
    found = torch.linalg.slogdet(a).logabsdet + torch.linalg.eigvalsh(a).sum() + torch.linalg.svd(a).S.sum()
    found = found + x.max(0).values.sum() + x.sort(1).values[:, 0].sum() + torch.aminmax(x).max
    return found + torch.linalg.cholesky_ex(a).L.sum() + x.cummax(0).values.sum() + x.kthvalue(2, 0).values.sum()


def tuples_of_one(x: Tensor) -> Tensor:
    (a,), (b,), (c,) = x.chunk(1), torch.broadcast_tensors(x), torch.tensor_split(x, 1)
    (d,), (e,) = torch.meshgrid(x[0], indexing="ij"), x[:1].unbind(0)
    return (a + b + c).sum() + d.sum() + e.sum()


def distributions(x: Tensor) -> Tensor:
    own = torch.distributions.MultivariateNormal(LINEAR(x).mean(0), torch.eye(4))
    coins = torch.distributions.Bernoulli(logits=LINEAR(x))
    return own.log_prob(x[0]) + coins.log_prob((x > 0).float()).sum()


def patches(x: Tensor) -> Tensor:
    return (F.unfold(x[None, None], 2).sum(0) * torch.arange(1, 3 * len(x) - 2)).sum() + x.unfold(1, 2, 1).sum()


def recomputed(x: Tensor) -> Tensor:
    def part(y: Tensor) -> Tensor:
        return torch.tanh(LINEAR(y))

    return checkpoint(part, x, use_reentrant=False).sum()  # type: ignore[no-any-return]


def compiled(x: Tensor) -> Tensor:
    return torch.compile(lambda y: torch.tanh(LINEAR(y)), backend="eager")(x).sum()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "f",
    [
        function_of_own, function_in_a_loop, function_in_a_cell, function_of_shared_tensors, function_through_numpy,
        masked_parameter, rows_of_a_parameter, packed, packed_unsorted, least_squares, made_of_numbers,
        sizes_of_numbers, as_numpy, as_text, copies, weakly, names_of_results, tuples_of_one, distributions, patches,
        recomputed, compiled,
    ],
)  # fmt: skip
def test_as_in_the_loop(f: Callable[[Tensor], Tensor]) -> None:
    if f is sizes_of_numbers and not NATIVE:
        pytest.skip("PyTorch looks into a value that is given as a number: the Python core has no memory for it")
    assert check_batch(f, GIVEN)


def test_a_reentrant_checkpoint() -> None:
    def f(x: Tensor) -> Tensor:
        return checkpoint(lambda y: torch.tanh(LINEAR(y)), x * 2, use_reentrant=True).sum()  # type: ignore[no-any-return]

    grads = []
    for total in (plait.batch(f)([x for (x,) in GIVEN]).sum(), sum(f(x) for (x,) in GIVEN)):
        LINEAR.zero_grad()
        total.backward()  # type: ignore[union-attr]
        grads.append([p.grad for p in LINEAR.parameters()] + [x.grad for (x,) in GIVEN])
        for (x,) in GIVEN:
            x.grad = None
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*grads))


def test_gradients_of_gradients_of_what_ran_alone() -> None:
    assert check_batch(lambda x: ((W**2)[x[0] > 0] * x[0].sum()).sum(), GIVEN, double_backward=True)


def test_the_kind_of_tuple_is_handed_out() -> None:
    got: Any = plait.batch(lambda x: torch.topk(x, 2, 0))(XS)
    assert type(got) is torch.return_types.topk
    assert torch.equal(got.values, torch.stack([x.topk(2, 0).values for x in XS]))


# ---------------------------------------------------------------------- refused
SCRIPTED = torch.jit.trace(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(3, 4))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("f", "sentence"),
    [
        (lambda x: torch.vmap(torch.tanh)(x).sum(), r"torch.func.vmap inside plait.batch \(.*, example 0\)"),
        (lambda x: torch.func.grad(lambda y: y.tanh().sum())(x).sum(), "torch.func.grad inside plait.batch"),
        (lambda x: torch.func.jacrev(torch.tanh)(x).sum(), "torch.func.grad inside plait.batch"),
        (lambda x: torch.func.jvp(torch.tanh, (x,), (x,))[1].sum(), "torch.func.jvp inside plait.batch"),
        (lambda x: SCRIPTED(x).sum(), "a scripted or traced module inside plait.batch"),
        (lambda x: x.to_sparse().to_dense().sum(), "a sparse or nested tensor of an example"),
        (lambda x: torch.ops.aten.nonzero(x).sum(), "a value is read inside of `nonzero` .*call the function of torch"),
    ],
)
def test_is_refused(f: Callable[[Tensor], Tensor], sentence: str) -> None:
    with pytest.raises(BatchError, match=sentence):
        plait.batch(f)(XS)
    assert torch.allclose(plait.batch(lambda x: x.sum())(XS), torch.stack([x.sum() for x in XS]))


@pytest.mark.parametrize(
    "write",
    [
        lambda y: InPlace.apply(y),  # type: ignore[no-untyped-call]
        lambda y: InPlaceThroughNumpy.apply(y),  # type: ignore[no-untyped-call]
        lambda y: torch.ops.aten.add_.Tensor(y, 1),
        lambda y: torch.ops.aten.mul.out(y, y, out=y),
        lambda y: torch._foreach_add_([y], 1.0),
    ],
)
def test_a_write_by_what_plait_cannot_look_into(write: Callable[[Tensor], Any]) -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 1
        before = y.sum()
        write(y)
        return y.sum() + before

    with pytest.raises(BatchError, match=r"writes to its arguments inside plait.batch"):
        plait.batch(f)(XS)


def test_a_write_through_numpy() -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 1
        y.numpy()[0] = 5
        return y.sum()

    with pytest.raises(ValueError, match="read-only"):
        plait.batch(f)(XS)


@pytest.mark.skipif(not NATIVE, reason="the Python core cannot give a value the memory of a tensor")
@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.Tensor(x).sum(),
        lambda x: torch.Tensor(x) + x,
        lambda x: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)).sum(),
        lambda x: torch.nested.nested_tensor([x[0], x[1][:2]]).to_padded_tensor(0).sum(),
        lambda x: torch._C._functorch._wrap_for_grad(x, 1).sum(),
    ],
)
def test_is_no_crash(f: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises((BatchError, RuntimeError, BufferError)):
        plait.batch(f)(XS)


def test_a_tensor_without_numbers_is_named() -> None:
    with pytest.raises(BatchError, match="a tensor without numbers"):
        plait.batch(lambda x: x + torch.zeros(4, device="meta"))(XS)


# ---------------------------------------------------------------------- gone afterwards
def test_nothing_stays_in_place() -> None:
    def state() -> list[Any]:
        from torch._functorch import eager_transforms, vmap

        return [
            torch.autograd.Function.apply.__func__.__code__,  # type: ignore[attr-defined]
            eager_transforms.grad_increment_nesting, eager_transforms.jvp_increment_nesting,
            vmap.vmap_increment_nesting, torch.set_autocast_cpu_enabled,
        ]  # fmt: skip

    before, during = state(), []

    def fails(x: Tensor) -> Tensor:
        during.append(state())
        raise KeyError("here")

    with pytest.raises(KeyError):
        plait.batch(fails)(XS)
    assert state() == before
    assert all(a is not b for a, b in zip(during[0], before))
    assert torch.func.grad(lambda y: (y * y).sum())(torch.ones(2)).tolist() == [2, 2]


def test_what_is_compiled_is_compiled_afterwards() -> None:
    made: list[str] = []

    def backend(graph: Any, inputs: Any) -> Any:
        made.append("compiled")
        return graph.forward

    f = torch.compile(lambda y: torch.tanh(y) + 1, backend=backend)
    plait.batch(lambda x: f(x).sum())(XS)
    assert not made
    f(XS[0])
    assert made


def test_another_thread_applies_its_function() -> None:
    import threading

    found: list[Any] = []
    box: Any = collections.deque()

    def elsewhere() -> None:
        x = torch.ones(4, requires_grad=True)
        kept_since_import(x, torch.ones(4))[0].sum().backward()  # type: ignore[no-untyped-call]
        found.append(x.grad)

    def f(x: Tensor) -> Tensor:
        box.append(threading.Thread(target=elsewhere))
        box[-1].start()
        box[-1].join()
        return x.sum()

    plait.batch(f)(XS)
    assert [g.tolist() for g in found] == [[4.0] * 4] * 4
