"""check: what mixes rows or lets padding through is named with its line; what does not is left in peace."""

import inspect
import json
import random

import pytest
import torch
from torch import nn

import plait
from plait.__main__ import main
from plait.testing import check_independent


class Threshold(nn.Module):
    """A decision over all rows, in a loop over time."""

    def __init__(self):
        super().__init__()
        self.cell = nn.RNNCell(2, 3)

    def forward(self, x):
        h = torch.zeros(x.shape[0], 3)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            h = torch.relu(h) if h.mean() > 0 else torch.tanh(h)  # <- decision-mixes-examples
        return h


def halve(x):
    for _ in range(30):
        if x.abs().max() < 1:  # <- decision-mixes-examples
            break
        x = x / 2
    return x


class Exit(nn.Module):
    """An early exit on the mean confidence."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) * 2
            if self.sure(x):
                break
        return x

    def sure(self, x):
        return bool(x.abs().mean() > 0.55)  # <- decision-mixes-examples


def centre(x):
    return x - x.mean(0)  # <- rows-depend-on-each-other


def rank(x):
    order = x[:, 0].argsort()  # <- rows-depend-on-each-other
    return order.argsort().float()[:, None] + x


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return torch.relu(self.norm(x))  # <- rows-depend-on-each-other


def contrast(x):
    weights = (x @ x.T).softmax(1)  # <- rows-depend-on-each-other
    return weights @ x


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 3, batch_first=True)

    def forward(self, x):
        out, _ = self.rnn(x)
        return out[:, -1]  # <- padding-reaches-output


class Final(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(2, 3, batch_first=True)

    def forward(self, x):
        _, (h, _) = self.rnn(x)  # <- padding-reaches-output
        return h[-1] * 2


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 3)

    def forward(self, x):
        return torch.tanh(self.inner(x)).mean(1)  # <- padding-reaches-output


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(2, 2)

    def forward(self, x):
        scores = self.key(x) @ x.transpose(1, 2)
        return scores.softmax(-1) @ x  # <- padding-reaches-output


def batch(rows=5, width=4):
    torch.manual_seed(3)
    return torch.randn(rows, width)


def sequences():
    torch.manual_seed(3)
    return [torch.randn(length, 2) for length in (6, 2, 4)]


SOURCE = inspect.getsource(inspect.getmodule(batch)).splitlines()
CASES = [
    (Threshold, lambda: torch.randn(5, 4, 2)), (lambda: halve, lambda: batch() * 20), (Exit, batch),
    (lambda: centre, batch), (lambda: rank, batch), (Norm, batch), (lambda: contrast, batch),
    (Last, sequences), (Final, sequences), (Pool, sequences), (Attention, sequences),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CASES)))
def test_what_is_wrong_is_named_with_its_line(case):
    make, examples = CASES[case]
    torch.manual_seed(1)
    found = plait.check(make(), examples())
    assert len(found.findings) == 1, str(found)
    finding = found.findings[0]
    line = SOURCE[finding.place.line - 1]
    assert line.endswith(f"# <- {finding.cause}"), str(finding)
    assert finding.category == "suspicious"
    assert any(character.isdigit() for character in finding.consequence)  # the size of the effect
    assert str(found).startswith(str(finding.place))


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 2)

    def forward(self, tokens):
        keep = (tokens != 0).float()[..., None]
        return self.out((self.embed(tokens) * keep).sum(1) / keep.sum(1))


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 3, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.rnn(packed)[1].transpose(0, 1)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.attend = nn.Embedding(9, 4), nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, tokens):
        h = self.embed(tokens)
        return self.attend(h, h, h, key_padding_mask=tokens == 0)[0][:, 0]


def per_row(x):
    return torch.where((x.mean(1) > 0)[:, None], torch.relu(x), torch.tanh(x))


def tokens():
    torch.manual_seed(3)
    return [torch.randint(1, 9, (length,)) for length in (6, 2, 4)]


def packed():
    rows = sequences()
    lengths = torch.tensor([len(row) for row in rows])
    return (nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths)


HEALTHY = [
    (Masked, tokens, None), (Packed, packed, [6, 2, 4]), (Heads, tokens, None), (lambda: per_row, batch, None),
    (lambda: Norm().eval(), batch, None),
    (lambda: nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Dropout(0.5)), batch, None),
    (lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), lambda: torch.randn(3, 5, 4), None),
    (lambda: nn.Sequential(nn.Linear(2048, 2048), nn.Linear(2048, 64)), lambda: torch.randn(7, 2048) * 30, None),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(HEALTHY)))
def test_healthy_models_are_left_in_peace(case):
    make, examples, lengths = HEALTHY[case]
    torch.manual_seed(1)
    found = plait.check(make(), examples(), lengths=lengths)
    assert not found, str(found)
    assert "Every row is the same" in str(found)


def test_a_decision_names_outcomes_values_and_effect():
    torch.manual_seed(1)
    finding = plait.check(Threshold(), torch.randn(5, 4, 2)).findings[0]
    assert "`h.mean() > 0`" in finding.fact and "5 rows" in finding.fact and "together" in finding.fact
    assert "changes by up to" in finding.consequence


def test_a_model_that_needs_two_rows():
    finding = plait.check(lambda x: x.sum(1).squeeze(-1)[:, None] * 1.0, torch.randn(4, 3, 1)).findings
    assert finding == ()
    found = plait.check(lambda x: (x @ torch.ones(3, 1)).squeeze()[:, None] * 1, torch.randn(4, 3))
    assert found.findings[0].cause == "fails-on-one-row"


def test_the_model_comes_out_as_it_was():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    model(torch.randn(3, 4)).sum().backward()
    model[2].eval()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    gradients = [(each.grad, each.grad.clone()) for each in model.parameters()]
    examples = batch()
    states = torch.get_rng_state(), random.getstate()
    plait.check(lambda x: model(x), examples)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    for parameter, (gradient, numbers) in zip(model.parameters(), gradients):
        assert parameter.grad is gradient and torch.equal(gradient, numbers)
    assert [each.training for each in model] == [True, True, False]
    assert torch.equal(torch.get_rng_state(), states[0]) and random.getstate() == states[1]


@pytest.mark.parametrize(
    ("model", "examples", "options", "text"),
    [
        (lambda x: x.sum(), torch.ones(3, 2), {}, "one part for each row"),
        (lambda x: x + torch.randn(2), torch.ones(3, 2), {}, "draws random numbers"),
        (lambda x: x, torch.ones(1, 2), {}, "at least two rows"),
        (lambda x: x, torch.ones(3, 2), {"lengths": [1]}, "1 lengths"),
        (lambda x: x @ x, torch.ones(3, 2), {}, "fails on the whole batch"),
        (lambda x: x, 3, {}, "no tensor"),
        (lambda x: x, ["a"], {}, "one tensor an example"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(model, examples, options, text):
    with pytest.raises(plait.PlaitError, match=text):
        plait.check(model, examples, **options)


def test_check_independent():
    check_independent(per_row, batch())
    with pytest.raises(AssertionError, match=r"x\.mean\(0\)"):
        check_independent(centre, batch())


SCRIPT = """\
import torch

def good():
    return torch.nn.Linear(3, 2), torch.ones(4, 3)

def bad():
    return {"model": lambda x: x - x.mean(0), "examples": torch.arange(12.0).reshape(4, 3), "rows": 2}

def neither():
    return 3
"""


def test_command(tmp_path, capsys):
    script = tmp_path / "script_of_check.py"
    script.write_text(SCRIPT)
    assert main(["check", f"{script}:good"]) == 0
    assert "Every row" in capsys.readouterr().out
    assert main(["check", f"{script}:bad"]) == 1
    assert "script_of_check.py:7" in capsys.readouterr().out
    assert main(["check", f"{script}:bad", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "plait-check" and document["findings"][0]["places"][0]["line"] == 7
    for target in (f"{script}:neither", f"{script}:nothing", f"{script}", f"{tmp_path}/none.py:f"):
        assert main(["check", target]) == 2
        assert capsys.readouterr().err.startswith("plait: ")
