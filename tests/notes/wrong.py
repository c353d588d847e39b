"""Programs that fail, one a function. The line to be named carries `# <-`; the name before `__` is the cause."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

# -- a write to what was saved ------------------------------------------------------------------------------------


def inplace_on_saved_tensor__result():
    x = torch.ones(3, requires_grad=True)
    y = torch.exp(x)
    y += 1  # <-
    y.sum().backward()


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        h = torch.sigmoid(self.inner(x))
        keep = h * x
        h.clamp_(max=0.5)  # <-
        return keep + h


def inplace_on_saved_tensor__in_a_module():
    torch.manual_seed(0)
    Gate()(torch.randn(2, 4)).sum().backward()


def inplace_on_saved_tensor__buffer_in_a_loop():
    w = torch.ones(3, requires_grad=True)
    memory = torch.zeros(4, 3)
    for t in range(1, 4):
        memory[t] = memory[t - 1] * w + 1  # <-
    memory[-1].sum().backward()


def _scale(part):
    part.mul_(2)  # <-


def inplace_on_saved_tensor__through_a_function():
    w = torch.ones(4, requires_grad=True)
    a = w * 2
    loss = (a * a).sum()
    _scale(a[:2])
    loss.backward()


def inplace_on_saved_tensor__older_step():
    w = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    a = w * 2
    early = (a**2).sum()
    w.sum().backward()
    optimizer.step()
    b = a.detach()
    b.zero_()  # <-
    early.backward()


def optimizer_step_before_backward__gan():
    torch.manual_seed(0)
    generator, critic = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = torch.optim.Adam(critic.parameters())
    verdict = critic(generator(torch.ones(4, 2)))
    verdict.mean().backward(retain_graph=True)
    optimizer.step()  # <-
    loss = -verdict.mean()
    loss.backward()


def optimizer_step_before_backward__two_heads():
    torch.manual_seed(0)
    trunk, one, two = nn.Linear(2, 4), nn.Linear(4, 1), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*trunk.parameters(), *one.parameters(), *two.parameters()], lr=0.1)
    for _ in range(2):
        h = two(torch.relu(trunk(torch.ones(3, 2))))
        first, second = h.sum(), (h**2).sum()
        optimizer.zero_grad()
        first.backward(retain_graph=True)
        optimizer.step()  # <-
        second.backward()


def optimizer_step_before_backward__in_a_function():
    actor, critic = nn.Linear(2, 2), nn.Linear(2, 1)
    optimizer = torch.optim.RMSprop(critic.parameters())
    value = critic(torch.tanh(actor(torch.ones(3, 2))))

    def update(loss):
        loss.backward(retain_graph=True)
        optimizer.step()  # <-

    update((value**2).mean())
    (-value.mean()).backward()


# -- a graph that is gone -----------------------------------------------------------------------------------------


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, 3)
        self.state = torch.zeros(1, 3)

    def forward(self, x):
        self.state = self.cell(x, self.state)  # <-
        return self.state


def backward_through_freed_graph__state_in_a_module():
    model = Counter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.ones(1, 2)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def backward_through_freed_graph__running_mean():
    w = torch.ones(2, requires_grad=True)
    mean = torch.zeros(2)
    for _ in range(3):
        mean = 0.9 * mean + 0.1 * w**2  # <-
        (mean - 1).abs().sum().backward()


def backward_through_freed_graph__lstm_state():
    lstm, state = nn.LSTM(2, 3), None
    for _ in range(3):
        out, state = lstm(torch.ones(4, 1, 2), state)  # <-
        out.mean().backward()


def backward_through_freed_graph__forward_outside():
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    loss = model(torch.ones(1, 2)).pow(2).sum()
    for _ in range(3):
        loss.backward()  # <-


def backward_through_freed_graph__replay():
    policy = nn.Linear(3, 2)
    memory = []
    for _ in range(3):
        memory.append(torch.log_softmax(policy(torch.ones(3)), 0)[0])
    for _ in range(2):
        loss = -sum(m * 0.5 for m in memory)  # <-
        loss.backward()


def backward_through_freed_graph__two_losses():
    encoder, one, two = nn.Linear(2, 3), nn.Linear(3, 1), nn.Linear(3, 1)
    code = torch.tanh(encoder(torch.ones(4, 2)))
    first, second = one(code).sum(), two(code).sum()
    first.backward()
    second.backward()  # <-


# -- nothing to reach ---------------------------------------------------------------------------------------------


def loss_without_graph__not_marked():
    x = torch.tensor([1.0, 2.0, 3.0])  # <-
    z = x * torch.tensor([4.0, 5.0, 6.0])
    z.sum().backward()


def loss_without_graph__argmax():
    model = nn.Linear(3, 3)
    guess = model(torch.ones(2, 3)).argmax(1)  # <-
    (guess.float() - 1).pow(2).mean().backward()


def loss_without_graph__item():
    model = nn.Linear(3, 1)
    number = model(torch.ones(3)).item()  # <-
    torch.tensor(number).backward()


def loss_without_graph__no_grad():
    model = nn.Linear(3, 1)
    with torch.no_grad():
        out = model(torch.ones(2, 3))  # <-
    out.mean().backward()


def loss_without_graph__detached():
    model = nn.Linear(3, 1)
    out = model(torch.ones(2, 3)).detach()  # <-
    (out * 2).mean().backward()


def loss_without_graph__numbers_joined():
    model = nn.Linear(3, 1)
    parts = [model(torch.ones(3))[0] for _ in range(3)]
    torch.tensor(parts).mean().backward()  # <-


def loss_without_graph__constant_branch():
    model = nn.Linear(3, 1)

    def loss(out):
        if (out > 1e6).any():
            return out.mean()
        return torch.zeros(())  # <-

    loss(model(torch.ones(2, 3))).backward()


def loss_without_graph__frozen():
    model = nn.Linear(3, 1)
    for parameter in model.parameters():
        parameter.requires_grad_(False)  # <-
    model(torch.ones(2, 3)).sum().backward()


def loss_is_no_number__vector():
    model = nn.Linear(3, 2)
    model(torch.ones(4, 3)).backward()  # <-


# -- grad of something unrelated ------------------------------------------------------------------------------------


def gradient_of_unrelated_tensor__sibling():
    a = torch.ones(3, requires_grad=True)
    doubled = a * 2
    loss = (a * 3).sum()
    torch.autograd.grad(loss, doubled)  # <-


def gradient_of_unrelated_tensor__other_leaf():
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    torch.autograd.grad((a**2).sum(), [a, b])  # <-


def gradient_of_unrelated_tensor__not_marked():
    x = torch.ones(2, 3)
    torch.autograd.grad(nn.Linear(3, 1)(x).sum(), x)  # <-


# -- writes that are refused at once ----------------------------------------------------------------------------------


def inplace_on_leaf__slice():
    table = nn.Parameter(torch.zeros(4, 2))
    table[0] = 1.0  # <-


def inplace_on_leaf__update_by_hand():
    w = torch.ones(3, requires_grad=True)
    (w**2).sum().backward()
    w -= 0.1 * w.grad  # <-


def inplace_on_leaf__through_a_view():
    model = nn.Linear(2, 2)
    row = model.weight[0]
    row.fill_(0.0)  # <-


def write_into_view__unbind():
    x = torch.ones(3, 2, requires_grad=True) * 1
    for row in x.unbind(0):
        row.add_(1)  # <-


def write_into_view__chunk():
    gates = nn.Linear(2, 6)(torch.ones(1, 2))
    i, f, o = gates.chunk(3, 1)
    i.sigmoid_()  # <-
    return f, o


def write_into_view__no_grad():
    x = torch.ones(4, requires_grad=True) * 2
    with torch.no_grad():
        head = x.view(2, 2)
    head.mul_(3)  # <-


def write_into_view__expanded():
    row = torch.zeros(1, 3)
    grid = row.expand(4, 3)
    grid.add_(1)  # <-


def inference_tensor_in_graph__cached():
    with torch.inference_mode():
        features = torch.ones(2, 3) * 2  # <-
    nn.Linear(3, 1)(features).sum().backward()


# -- recomputation ------------------------------------------------------------------------------------------------


def checkpoint_took_another_path__flag():
    layer, calls = nn.Linear(2, 2), []

    def block(x):
        calls.append(1)
        y = layer(x)
        if len(calls) == 1:
            y = torch.relu(y)  # <-
        return y + 1

    checkpoint(block, torch.ones(1, 2, requires_grad=True), use_reentrant=False).sum().backward()


def checkpoint_took_another_path__cache():
    layer, cache = nn.Linear(2, 2), []

    def block(x):
        cache.append(x)
        grown = torch.cat(cache)  # <-
        return layer(grown).tanh().sum()

    checkpoint(block, torch.ones(3, 2, requires_grad=True), use_reentrant=False).backward()


# -- transforms -----------------------------------------------------------------------------------------------------


def data_dependent_decision__if_under_vmap():
    def one(x):
        if x.max() > 0:  # <-
            return x * 2
        return x

    torch.vmap(one)(torch.ones(3, 2))


def data_dependent_decision__mask_under_vmap():
    torch.vmap(lambda x: x[x > 0].sum())(torch.ones(3, 2))  # <-


def data_dependent_decision__many_rows():
    scores = nn.Linear(2, 1)(torch.ones(4, 2))
    if scores > 0:  # <-
        scores = scores * 2
