"""Programs of many kinds, each returning what can be compared. None of them knows that it is watched."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Program = Callable[[], Any]
PROGRAMS: dict[str, Program] = {}


def program(func: Program) -> Program:
    """Register a program under its name."""
    PROGRAMS[func.__name__] = func
    return func


@program
def first_graph() -> Any:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = torch.tensor([4.0, 5.0, 6.0], requires_grad=True)
    loss = (x * y).sum()
    loss.backward()
    print(x.grad, y.grad)
    return x, y, loss.detach()


@program
def branch_on_item() -> Any:
    outputs = []
    for start in (1.0, 0.5):
        x = torch.tensor(start, requires_grad=True)
        y = x * 2
        z = y * 3 if y.item() > 1.5 else y * 4
        z.backward()
        outputs.append(x)
    return outputs


class DecidingRNN(nn.Module):
    """Decides in every step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.RNNCell(3, 5)
        self.head = nn.Linear(5, 2)

    def forward(self, sequence: Tensor) -> Tensor:
        hidden = sequence.new_zeros(1, 5)
        for row in sequence:
            hidden = self.cell(row[None], hidden)
            hidden = torch.relu(hidden) if hidden.mean() > 0 else torch.tanh(hidden)
        return self.head(hidden)


@program
def deciding_rnn() -> Any:
    model = DecidingRNN()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for length in (4, 6, 3):
        optimizer.zero_grad()
        loss = model(torch.randn(length, 3)).square().mean()
        loss.backward()
        optimizer.step()
        print(f"{loss:.4f} {loss.item():.4f}")
    return model


@program
def mlp_with_adam_and_clipping() -> Any:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(5):
        loss = F.mse_loss(model(torch.randn(8, 4)), torch.randn(8, 1))
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        print(norm)
    return model


@program
def lbfgs() -> Any:
    model = nn.Linear(3, 1)
    inputs, targets = torch.randn(20, 3), torch.randn(20, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    for _ in range(2):
        print(optimizer.step(closure))
    return model


@program
def batchnorm_and_convolution() -> Any:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2))
    for _ in range(2):
        model(torch.randn(2, 1, 8, 8)).sum().backward()
    model.eval()
    with torch.no_grad():
        print(model(torch.randn(2, 1, 8, 8)).sum())
    return model


@program
def attention() -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    mask = torch.tensor([[False, False, True], [False, False, False]])
    out = layer(torch.randn(2, 3, 8), src_key_padding_mask=mask)
    out.sum().backward()
    return layer, out.detach()


@program
def autocast() -> Any:
    model = nn.Linear(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(torch.randn(2, 4)) @ torch.randn(4, 4)
    plain = model(torch.randn(2, 4))
    (out.float().sum() + plain.sum()).backward()
    return model, out.detach()


@program
def functional_transforms() -> Any:
    weights = torch.randn(3)

    def loss(w: Tensor, x: Tensor) -> Tensor:
        return torch.tanh((w * x).sum())

    per_example = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, torch.randn(5, 3))
    jacobian = torch.func.jacrev(lambda w: w.exp())(weights)
    hessian = torch.func.hessian(lambda w: (w**3).sum())(weights)
    return per_example, jacobian, hessian


class Cube(torch.autograd.Function):
    """x cubed, with a decision in its backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        if gradient.sum() > 100:
            return gradient
        return gradient * 3 * x**2


@program
def custom_function() -> Any:
    x = torch.randn(4, requires_grad=True)
    Cube.apply(x * 2).sum().backward()
    return x


@program
def checkpointed() -> Any:
    layer = nn.Linear(4, 4)
    x = torch.randn(2, 4, requires_grad=True)
    for reentrant in (False, True):
        out = checkpoint(lambda z: torch.dropout(torch.relu(layer(z)), 0.5, True), x, use_reentrant=reentrant)
        out.sum().backward()
    return layer, x


class Numbers(torch.utils.data.Dataset[Tensor]):
    """Twelve tensors."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((3,), float(index)) + torch.rand(())


@program
def loader_with_workers() -> Any:
    model = nn.Linear(3, 1)
    for batch in torch.utils.data.DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=2):
        model(batch).sum().backward()
    return model


@program
def copies_and_pickles() -> Any:
    model = nn.Sequential(nn.Linear(3, 3), nn.LSTM(3, 2))
    twin = copy.deepcopy(model)
    back = pickle.loads(pickle.dumps(model))
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "tensor": torch.randn(3, requires_grad=True)}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    twin.load_state_dict(loaded["model"])
    return model, twin, back, loaded["tensor"]


@program
def in_place_and_views() -> Any:
    x = torch.randn(4, 3, requires_grad=True)
    y = x * 1
    y[0] = 0
    y[1:].mul_(2)
    left, right = y.chunk(2)
    y += 1
    rows = [row.exp() for row in left]
    torch.stack(rows).sum().backward(retain_graph=True)
    right.sum().backward()
    return x, y.detach()


@program
def double_backward() -> Any:
    x = torch.randn(3, requires_grad=True)
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    gradient.square().sum().backward()
    (x * 2).sum().backward(create_graph=True)
    return x.detach(), gradient.detach()


@program
def errors_in_backward() -> Any:
    x = torch.randn(3, requires_grad=True)
    y = x.exp()
    y.mul_(2)
    with contextlib.suppress(RuntimeError):
        y.sum().backward()
    try:
        torch.ones(3).sum().backward()
    except RuntimeError as error:
        print(error)
    return x


@program
def tracebacks_that_the_program_prints() -> Any:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 2))

    def twice() -> None:
        loss = torch.ones(2, requires_grad=True).exp().sum()
        loss.backward()
        loss.backward()

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x @ x

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0]

    for fails in (
        lambda: torch.ones(2) + torch.ones(3),
        lambda: F.cross_entropy(torch.ones(2, 3), torch.ones(5).long()),
        lambda: model(torch.ones(2, 3)),
        lambda: bool(torch.ones(3)),
        lambda: torch.ones(3).item(),
        lambda: Fails.apply(torch.ones(2, 3)),
        twice,
    ):
        try:
            fails()
        except (RuntimeError, ValueError) as error:
            vars(error).pop("__notes__", None)  # what plait says of the error is meant to be seen
            print(traceback.format_exc())
            print(*traceback.extract_tb(sys.exc_info()[2]), sep="\n")
            logging.getLogger("program").handlers[:] = [logging.StreamHandler(sys.stdout)]
            logging.getLogger("program").exception("failed")
    return None


@program
def raises_from_a_module() -> Any:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(3, 4))
    return model(torch.randn(2, 3))


@program
def packed_sequences() -> Any:
    model = nn.GRU(3, 4, bidirectional=True)
    packed = nn.utils.rnn.pack_sequence([torch.randn(n, 3) for n in (5, 2, 3)], enforce_sorted=False)
    out, _ = model(packed)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(out)
    padded.sum().backward()
    return model, lengths


@program
def inference_and_grad_modes() -> Any:
    model = nn.Linear(3, 3)
    with torch.inference_mode():
        features = model(torch.randn(2, 3))
        features += 1
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
        with torch.enable_grad():
            model(torch.randn(2, 3)).sum().backward()
    return model, features.clone()


@program
def hooks() -> Any:
    model = nn.Linear(3, 3)
    model.register_forward_hook(lambda module, args, out: out * 2)
    model.weight.register_hook(lambda gradient: gradient * 0.5)
    out = model(torch.randn(2, 3))
    out.register_hook(lambda gradient: print(gradient.sum().item()))
    out.sum().backward()
    return model


@program
def reads_of_every_kind() -> Any:
    x = torch.tensor([3.0, 1.0, 2.0])
    index = torch.tensor(1)
    seen = [bool(x[0] > 1), int(index), float(x[1]), [10, 20, 30][index], list(range(index)), x.tolist(), 2.0 in x]
    seen += [max(x), sorted(x), x.numpy().sum(), x[x > 1.5], x.nonzero().shape[0], torch.equal(x, x), f"{x[0]:.2f}"]
    first, *rest = x
    assert first
    while x[0] > 0:
        x = x - 1
    return seen, first, rest, x


@program
def compiled() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = torch.compile(lambda x: (x * 2).sin() + 1, backend="eager")
        model = torch.compile(nn.Linear(3, 3), backend="eager")
        x = torch.randn(2, 3, requires_grad=True)
        for _ in range(3):
            model(function(x)).sum().backward()
    return x


@program
def scripted() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    x = torch.randn(2, 3, requires_grad=True)
    model(x).sum().backward()
    return x


@program
def generators_and_comprehensions() -> Any:
    def halves(x: Tensor) -> Any:
        with torch.no_grad():
            for row in x:
                yield row / 2

    x = torch.randn(4, 3, requires_grad=True)
    total = sum(row.exp().sum() for row in x if row.sum() > 0)
    frozen = [half.sum() for half in halves(x)]
    if isinstance(total, Tensor):
        total.backward()
    return x, frozen


@program
def data_and_detach() -> Any:
    x = torch.randn(3, requires_grad=True)
    y = x * 2
    y.data.mul_(3)
    z = y.detach()
    z += 1
    (y * x).sum().backward()
    x.data = torch.zeros(3)
    return x, z


@program
def parameters_of_every_kind() -> Any:
    model = nn.ModuleDict({"a": nn.Embedding(5, 3, sparse=True), "b": nn.Bilinear(3, 3, 2)})
    words = model["a"](torch.tensor([1, 2, 1]))
    model["b"](words, words).sum().backward()
    gradient = model["a"].weight.grad
    assert gradient is not None
    return model["b"], gradient.to_dense()


@program
def tree_recursion() -> Any:
    cell = nn.Linear(4, 2)

    def encode(tree: Any) -> Tensor:
        if isinstance(tree, int):
            return torch.full((2,), float(tree))
        return torch.tanh(cell(torch.cat([encode(each) for each in tree])))

    encode(((1, 2), (3, (4, 5)))).sum().backward()
    return cell


@program
def meta_and_default_device() -> Any:
    with torch.device("meta"):
        shape = nn.Linear(3, 5)(torch.empty(2, 3)).shape
    return tuple(shape)


@program
def gradient_penalty_gan() -> Any:
    generator, critic = nn.Linear(2, 3), nn.Linear(3, 1)
    one, two = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
    for _ in range(2):
        real, fake = torch.randn(4, 3, requires_grad=True), generator(torch.randn(4, 2)).detach()
        (slope,) = torch.autograd.grad(critic(real).square().sum(), real, create_graph=True)
        two.zero_grad()
        (critic(fake).mean() - critic(real).mean() + slope.norm()).backward()
        two.step()
        one.zero_grad()
        (-critic(generator(torch.randn(4, 2))).mean()).backward()
        one.step()
    return generator, critic


@program
def refused_export() -> Any:
    class Deciding(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 if x.sum() > 0 else x

    try:
        torch.export.export(Deciding(), (torch.ones(3),))
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0]  # below it names frames, ours among them
    return None
