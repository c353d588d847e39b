"""Writes random one-example programs: loops, decisions, recursion, writes in place, tensor views, lists, dicts, masks."""  # noqa: E501

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import plait

WIDTH = 4


class Parts:
    """The weights that programs use."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.w = nn.Parameter(torch.randn(WIDTH, WIDTH, dtype=torch.float64) * 0.5)
        self.b = nn.Parameter(torch.randn(WIDTH, dtype=torch.float64) * 0.5)
        self.lin = nn.Linear(WIDTH, WIDTH).double()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 6), nn.ReLU(), nn.Linear(6, WIDTH)).double()
        self.gru = nn.GRUCell(WIDTH, WIDTH).double()
        self.lstm = nn.LSTM(WIDTH, WIDTH, bidirectional=True).double()
        self.norm = nn.LayerNorm(WIDTH).double()
        self.emb = nn.Embedding(5, WIDTH).double()
        self.all = nn.ModuleList([self.lin, self.mlp, self.gru, self.lstm, self.norm, self.emb])
        self.all.register_parameter("w", self.w)
        self.all.register_parameter("b", self.b)


class Gen:
    """One program."""

    def __init__(self, rnd: random.Random) -> None:
        self.r = rnd
        self.lines: list[str] = []
        self.n = 0
        self.vecs, self.mats, self.nums = ["v"], ["x"], ["s"]
        self.indent = 1
        self.budget = rnd.randint(3, 14)

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def new(self, kind: str) -> str:
        self.n += 1
        return f"{kind}{self.n}"

    def vec(self) -> str:
        return self.r.choice(self.vecs)

    def mat(self) -> str:
        return self.r.choice(self.mats)

    def num(self) -> str:
        return self.r.choice(self.nums)

    def const(self) -> str:
        return self.r.choice(["0.5", "-1.0", "2", "0.1", "-0.0", "1", "1.0", "3"])

    def vec_expr(self) -> str:
        a, b, m, s = self.vec(), self.vec(), self.mat(), self.num()
        return self.r.choice(
            [
                f"torch.tanh({a})",
                f"torch.sigmoid({a} + {b})",
                f"{a} * {b}",
                f"{a} - {self.const()} * {b}",
                f"F.linear({a}, W, B)",
                f"lin({a})",
                f"mlp({a})",
                f"gru({a}, {b})",
                f"torch.relu({a})",
                f"{m}.sum(0)",
                f"{m}.mean(0) if len({m}) else {a}",
                f"{m}[0] if len({m}) else {b}",
                f"{m}[-1] * 1 if len({m}) else {b}",
                f"torch.cat([{a}[:2], {b}[2:]])",
                f"torch.where({a} > {self.const()}, {a}, {b})",
                f"{a}.clamp(-1, 1)",
                f"F.softmax({a}, 0)",
                f"{a} * {s}",
                f"{a} @ W",
                f"W @ {a}",
                f"torch.stack([{a}, {b}]).max(0).values",
                f"torch.stack([{a}, {b}], 1).sum(1)",
                f"norm({a})",
                f"{a}.flip(0)",
                f"torch.cumsum({a}, 0)",
                f"torch.lerp({a}, {b}, 0.3)",
                f"{a}.view(2, 2).t().reshape(-1)",
                f"{a}.detach() * {b}",
                f"torch.outer({a}, {b}).sum(1)",
                f"({a} + zeros(4))",
                f"{a} / (1 + {b} * {b})",
                f"step({a}, {b})",
                f"pool({a}, {m})",
                f"torch.roll({a}, 1, 0)",
                f"{a}.sort().values",
                f"{a}[torch.tensor([3, 0, 1, 1])]",
                f"torch.exp(-{a} * {a})",
                f"-{a}",
                f"{a}.abs()",
                "emb(k)",
                f"torch.einsum('i,ij->j', {a}, W)",
                f"{m}.amax(0) if len({m}) else {a}",
                f"torch.addcmul({a}, {b}, {a}, value=0.5)",
                f"F.gelu({a})",
                f"{a}.masked_fill({b} > 0, 0.25)",
                f"F.normalize({a}, dim=0)",
                f"torch.maximum({a}, {b})",
                f"{a} ** 2",
                f"two({a}, {b})[0]",
                f"two({a}, {b})[1]",
                f"{a}.expand(3, 4).sum(0)",
                f"torch.logsumexp(torch.stack([{a}, {b}]), 0)",
                f"({m} @ {a}).sum() * {b}",
            ]
        )

    def mat_expr(self) -> str:
        a, b, m = self.vec(), self.vec(), self.mat()
        return self.r.choice(
            [
                f"torch.tanh({m})",
                f"lin({m})",
                f"F.linear({m}, W, B)",
                f"{m} + {a}",
                f"{m} * {b} - {self.const()}",
                f"mlp({m})",
                f"torch.softmax({m}, -1)",
                f"{m} * 0.5 + {m}",
                f"norm({m})",
                f"torch.cat([{m}, {m}], 0)",
                f"torch.stack([{a}, {b}])",
                f"torch.cumsum({m}, 0)",
                f"{m}[1:]",
                f"{m}[:2]",
                f"{m}.flip(0)",
                f"{m}[{m}.sum(1) > 0]",
                f"torch.cat([{m}, {a}[None]])",
                f"{m} @ W",
                f"lstm({m})[0][:, :4] if len({m}) else {m}",
                f"{m}.t().contiguous().t()",
                f"{m}.view(-1, 2, 2).transpose(1, 2).reshape(-1, 4)",
                f"{m}.clone()",
                f"torch.where({m} > 0, {m}, {a})",
                f"{m}[[0, 0]] if len({m}) else {m}",
                f"{a}.unsqueeze(0) * {m}",
                "emb(ids)",
                f"torch.stack(list({m}) + [{a}])",
                f"{m}.sort(0).values",
                f"{m} - {m}.mean(1, keepdim=True)",
            ]
        )

    def num_expr(self) -> str:
        a, b, m, s, t = self.vec(), self.vec(), self.mat(), self.num(), self.num()
        return self.r.choice(
            [
                f"{a}.sum()",
                f"{a}.mean()",
                f"{a} @ {b}",
                f"{m}.sum()",
                f"{a}.max()",
                f"{a}[1]",
                f"torch.tanh({s})",
                f"{s} + {t}",
                f"{s} * {self.const()}",
                f"{a}.norm()",
                f"F.mse_loss({a}, {b})",
                f"F.cross_entropy({a}, k)",
                f"{a}.prod()",
                f"F.cross_entropy({m}, ids[:len({m})], reduction='sum') if 0 < len({m}) <= len(ids) else {s}",
                f"{a}.std()",
                f"({a} > 0).double().sum()",
                f"{m}.mean() if len({m}) else {t}",
                f"{s} / (1 + {t} ** 2)",
                f"{m}[{m} > 0.2].sum()",
            ]
        )

    def statement(self, depth: int) -> None:
        r = self.r
        roll = r.random()
        if roll < 0.26:
            e, name = self.vec_expr(), self.new("v")
            self.put(f"{name} = {e}")
            self.vecs.append(name)
        elif roll < 0.40:
            e, name = self.mat_expr(), self.new("m")
            self.put(f"{name} = {e}")
            self.mats.append(name)
        elif roll < 0.52:
            e, name = self.num_expr(), self.new("n")
            self.put(f"{name} = {e}")
            self.nums.append(name)
        elif roll < 0.62 and depth < 3:
            self.branch(depth)
        elif roll < 0.72 and depth < 2:
            self.loop(depth)
        elif roll < 0.84:
            self.inplace()
        elif roll < 0.90:
            self.lists()
        elif roll < 0.94:
            self.recursion()
        elif roll < 0.97:
            a = self.vec()
            name = self.new("v")
            self.put("with torch.no_grad():")
            self.put(f"    {name} = torch.tanh({a}) * 2")
            self.vecs.append(name)
        elif depth == 1 and r.random() < 0.5:
            self.put(f"if {self.num()} > 1.5:")
            self.put("    return out(locals())")

    def test(self) -> str:
        s = self.num()
        return self.r.choice(
            [
                f"{s} > {self.const()}",
                f"{s}.item() < 0.3",
                f"bool({s} >= 0)",
                f"float({s}) > 0 and {self.num()} < 1",
                f"({self.vec()} > 0).any()",
                f"int({self.vec()}.argmax()) == 1",
                f"len({self.mat()}) > 2",
                "k == 1",
                f"max({self.vec()}.tolist()) > 0.4",
                f"0 < {s}",
            ]
        )

    def block(self, depth: int, target: str) -> None:
        keep = list(self.vecs), list(self.mats), list(self.nums)
        self.indent += 1
        for _ in range(self.r.randint(0, 2)):
            self.statement(depth + 1)
        self.put(f"{target} = {self.vec_expr()}")
        self.indent -= 1
        self.vecs, self.mats, self.nums = keep

    def branch(self, depth: int) -> None:
        name = self.new("v")
        self.put(f"if {self.test()}:")
        self.block(depth, name)
        self.put("else:")
        self.block(depth, name)
        self.vecs.append(name)

    def loop(self, depth: int) -> None:
        name = self.new("v")
        self.put(f"{name} = {self.vec()}")
        self.vecs.append(name)
        kind = self.r.randint(0, 3)
        if kind == 0:
            row = self.new("v")
            self.put(f"for {row} in {self.mat()}:")
            self.vecs.append(row)
            self.block(depth, name)
            self.vecs.remove(row)
        elif kind == 1:
            self.put(f"for _ in range({self.r.choice(['2', 'len(x)', 'int(k) + 1', '0'])}):")
            self.block(depth, name)
        else:
            c = self.new("c")
            self.put(f"{c} = 0")
            self.put(f"while {c} < 4 and {name}.sum() {self.r.choice(['<', '>'])} 0.7:")
            self.indent += 1
            self.put(f"{c} += 1")
            self.indent -= 1
            self.block(depth, name)

    def inplace(self) -> None:
        r = self.r
        if r.random() < 0.5:
            name = self.new("v")
            self.put(f"{name} = {self.vec()}.clone()")
            self.vecs.append(name)
            self.put(
                r.choice(
                    [
                        f"{name} += {self.vec()}",
                        f"{name}.mul_({self.const()})",
                        f"{name}[1] = {self.num()}",
                        f"{name}[:2] = {self.vec()}[2:]",
                        f"{name}[1:3].add_({self.num()})",
                        f"{name}.view(2, 2)[0] = {self.num()}",
                        f"{name}.copy_({self.vec()})",
                        f"{name}[0] += 1",
                        f"{name}.clamp_(-1, 1)",
                        f"{name}[{self.vec()} > 0] = 0.5",
                        f"{name}.zero_()",
                        f"{name} *= {name}",
                        f"{name}.fill_(0.3)",
                        f"{name}[torch.tensor([0, 2])] = {self.num()}",
                        f"{name}.tanh_()",
                        f"{name}[:] = 0.1",
                    ]
                )
            )
        else:
            name, view = self.new("m"), self.new("v")
            self.put(
                f"{name} = torch.zeros(3, 4, dtype=torch.float64) if {r.choice(['True', 'False'])} else {self.mat()}.clone()"  # noqa: E501
            )
            self.put(f"if len({name}) > 1:")
            self.indent += 1
            self.put(f"{view} = {name}[{r.choice(['0', '1', '-1'])}]")
            self.put(
                r.choice(
                    [
                        f"{name}[0] = {self.vec()}",
                        f"{view} += {self.vec()}",
                        f"{name}[1] += {self.vec()}",
                        f"{name}[:, 1] = {self.num()}",
                        f"{name}.add_({self.vec()})",
                        f"{name}[0, 2] = {self.num()}",
                        f"{view}.mul_(2)",
                        f"{name}[:2] *= 0.5",
                        f"{name}.t()[1] = 0.25",
                        f"{view}[1:3] = {self.vec()}[:2]",
                    ]
                )
            )
            self.indent -= 1
            self.put("else:")
            self.put(f"    {view} = {self.vec()}")
            self.mats.append(name)
            self.vecs.append(view)

    def lists(self) -> None:
        items, name = self.new("l"), self.new("v")
        self.put(f"{items} = []")
        self.put(f"for i, row in enumerate({self.mat()}):")
        self.put(f"    {items}.append(row * i + {self.vec()})")
        self.put(f"{items} = {items}[::-1]")
        self.put(f"d = {{'a': {self.vec()}, 'b': {items}}}")
        self.put(f"{name} = torch.stack(d['b']).sum(0) if d['b'] else d['a']")
        self.vecs.append(name)

    def recursion(self) -> None:
        f, name = self.new("f"), self.new("v")
        self.put(f"def {f}(n, h):")
        self.put("    if n <= 0:")
        self.put(f"        return torch.tanh(h + {self.vec()})")
        self.put(f"    return {self.r.choice(['step', 'gru'])}({f}(n - 1, h), {f}(n - 2, h * 0.5))")
        self.put(f"{name} = {f}({self.r.choice(['int(k)', 'len(x)', '2'])}, {self.vec()})")
        self.vecs.append(name)

    def source(self) -> str:
        self.lines = ["def program(x, v, s, k, ids):"]
        for _ in range(self.budget):
            self.statement(1)
        self.put("return out(locals())")
        picks = {
            "v": self.r.sample(self.vecs, min(2, len(self.vecs))),
            "m": self.r.sample(self.mats, 1),
            "n": self.r.sample(self.nums, 1),
        }
        self.lines[-1:] = [
            f"    return {{'v': ({', '.join(picks['v'])},), 'm': {picks['m'][0]} * 1, 'n': {picks['n'][0]} * 1}}"
        ]
        return (
            "\n".join(
                line.replace(
                    "return out(locals())",
                    f"return {{'v': ({', '.join(['v'] * len(picks['v']))},), 'm': x * 1, 'n': s * 1}}",
                )
                for line in self.lines
            )
            + "\n"
        )


def environment(parts: Parts) -> dict[str, Any]:
    @plait.cell
    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.tanh(F.linear(a, parts.w) + b * 0.5) * torch.sigmoid(b)

    @plait.cell
    def pool(a: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return torch.tanh((F.linear(m, parts.w) * torch.sigmoid(m + a)).sum(0) + a)

    @plait.cell
    def two(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        p, q = F.linear(torch.cat([a, b]), torch.cat([parts.w, parts.w.t()], 1)).chunk(2)
        return torch.cat([torch.sigmoid(p), torch.tanh(q)]), torch.cat([p, q]) * a

    return {
        "torch": torch,
        "F": F,
        "W": parts.w,
        "B": parts.b,
        "lin": parts.lin,
        "mlp": parts.mlp,
        "gru": parts.gru,
        "lstm": parts.lstm,
        "norm": parts.norm,
        "emb": parts.emb,
        "step": step,
        "pool": pool,
        "two": two,
        "parts": parts.all,
        "zeros": lambda n: torch.zeros(n, dtype=torch.float64),
    }


def examples(rnd: random.Random) -> list[tuple[Any, ...]]:
    g = torch.Generator().manual_seed(rnd.randint(0, 10**6))
    res = []
    for _ in range(rnd.choice([1, 2, 3, 4, 5])):
        n = rnd.choice([0, 1, 1, 2, 3, 4])
        res.append(
            (
                torch.randn(n, WIDTH, generator=g, dtype=torch.float64, requires_grad=True),
                torch.randn(WIDTH, generator=g, dtype=torch.float64, requires_grad=rnd.random() < 0.8),
                torch.randn((), generator=g, dtype=torch.float64),
                torch.randint(0, 4, (), generator=g),
                torch.randint(0, 4, (rnd.choice([1, 2, 3]),), generator=g),
            )
        )
    return res


def compile_program(source: str, parts: Parts) -> Any:
    env = environment(parts)
    exec(compile(source, "<program>", "exec"), env)
    fn = env["program"]
    fn.__globals__["parts"] = parts.all
    return fn
