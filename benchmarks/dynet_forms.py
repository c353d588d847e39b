"""Workloads in DyNet, written for one example as one writes them there.

DyNet is set up once when it is loaded, so each workload has a process of its own; `batch.py` starts it as

    python benchmarks/dynet_forms.py AUTOBATCH

AUTOBATCH is 0 or 1: automatic batching off or on.  First a pickle of the weights and examples as numpy arrays comes in;
then, for each line that does, one round runs, and its loss and CPU seconds are printed: so DyNet and PyTorch take turns.
Runs without torch.  Where the program reads a value (W2, W5, W6), DyNet runs what it has of that example: nothing
batches across examples there.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import dynet_config

dynet_config.set(mem=3072, autobatch=int(sys.argv[1]), random_seed=1)

import dynet as dy  # noqa: E402
import numpy as np  # noqa: E402
from settings import EPSILON, MOST, PONDER, choose  # noqa: E402

Loss = Callable[[], Any]


class Task:
    """Weights by their PyTorch names, and the sequences of all examples in one table of rows."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.h: int = task["hidden"]
        self.examples: list[Any] = task["examples"]
        self.state: dict[str, Any] = task["state"]
        self.weights, self.data = dy.ParameterCollection(), dy.ParameterCollection()
        self.made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.made:
            self.made[name] = self.weights.parameters_from_numpy(self.state[name])
        return self.made[name]

    def put(self, name: str, value: Any) -> Any:
        self.made[name] = self.weights.parameters_from_numpy(np.ascontiguousarray(value))
        return self.made[name]

    def linear(self, name: str, x: Any) -> Any:
        return dy.affine_transform([self[name + ".bias"], self[name + ".weight"], x])

    def zero(self) -> Any:
        return dy.inputTensor(np.zeros(self.h, np.float32))

    def rows(self, column: int) -> Callable[[], Iterator[list[Any]]]:
        """The rows of each example, looked up; they are data and have no gradient."""
        sequences = self.examples[column]
        table = self.data.lookup_parameters_from_numpy(np.concatenate(sequences))

        def look_up() -> Iterator[list[Any]]:
            at = 0
            for x in sequences:
                yield [dy.lookup(table, i, update=False) for i in range(at, at + len(x))]
                at += len(x)

        return look_up

    def loss(self, h: Any, y: int) -> Any:
        return dy.pickneglogsoftmax(self.linear("head", h), int(y))


def loop(t: Task) -> Loss:
    rows = t.rows(0)
    b = t.put("b", t.state["cell.bias_ih"] + t.state["cell.bias_hh"])
    wx, wh = t["cell.weight_ih"], t["cell.weight_hh"]

    def run() -> Any:
        losses = []
        for xs, y in zip(rows(), t.examples[1]):
            h = t.zero()
            for x in xs:
                h = dy.tanh(dy.affine_transform([b, wx, x, wh, h]))
            losses.append(t.loss(h, y))
        return dy.esum(losses)

    return run


def lstm_loop(t: Task) -> Loss:
    rows = t.rows(0)
    builder = dy.VanillaLSTMBuilder(1, t.h, t.h, t.weights)

    def reordered(a: Any) -> Any:  # PyTorch has i f g o, DyNet i f o g
        i, f, g, o = np.split(a, 4)
        return np.concatenate([i, f, o, g])

    bias = t.state["cell.bias_ih"] + t.state["cell.bias_hh"]
    bias[t.h : 2 * t.h] -= 1  # DyNet adds it
    for p, value in zip(builder.get_parameters()[0], (t.state["cell.weight_ih"], t.state["cell.weight_hh"], bias)):
        p.set_value(reordered(value))

    def run() -> Any:
        losses = []
        for xs, y in zip(rows(), t.examples[1]):
            state = builder.initial_state()
            for x in xs:
                state = state.add_input(x)
            losses.append(t.loss(state.output(), y))
        return dy.esum(losses)

    return run


def deciding(t: Task) -> Loss:
    rows = t.rows(0)

    def run() -> Any:
        losses = []
        for xs, y in zip(rows(), t.examples[1]):
            h = t.zero()
            for x in xs:
                a = dy.affine_transform([t["x.bias"], t["x.weight"], x, t["s.weight"], h])
                h = dy.rectify(a) if dy.mean_elems(a).value() > 0 else dy.tanh(a)
            losses.append(t.loss(h, y))
        return dy.esum(losses)

    return run


def gates(a: Any, n: int, h: int) -> list[Any]:
    return [dy.pick_range(a, k * h, (k + 1) * h) for k in range(n)]


def output(o: Any, c: Any) -> tuple[Any, Any]:
    return dy.cmult(dy.logistic(o), dy.tanh(c)), c


def binary_tree(t: Task) -> Loss:
    rows = t.rows(1)
    left, right = np.split(t.state["node_in.weight"], 2, axis=1)
    wl, wr = t.put("left", left), t.put("right", right)

    def walk(tree: Any, xs: list[Any]) -> tuple[Any, Any]:
        if isinstance(tree, int):
            i, o, u = gates(t.linear("leaf_in", xs[tree]), 3, t.h)
            return output(o, dy.cmult(dy.logistic(i), dy.tanh(u)))
        (hl, cl), (hr, cr) = walk(tree[0], xs), walk(tree[1], xs)
        i, fl, fr, o, u = gates(dy.affine_transform([t["node_in.bias"], wl, hl, wr, hr]), 5, t.h)
        kept = [dy.cmult(dy.logistic(f), c) for f, c in ((fl, cl), (fr, cr))]
        return output(o, dy.esum([dy.cmult(dy.logistic(i), dy.tanh(u)), *kept]))

    def run() -> Any:
        trees, _, ys = t.examples
        return dy.esum([t.loss(walk(tree, xs)[0], y) for tree, xs, y in zip(trees, rows(), ys)])

    return run


def child_sum(t: Task) -> Loss:
    words = t.weights.lookup_parameters_from_numpy(t.state["words.weight"])

    def walk(tree: Any) -> tuple[Any, Any]:
        x = dy.lookup(words, tree[0])
        states = [walk(child) for child in tree[1]]
        if not states:
            i, o, u = gates(t.linear("x", x), 3, t.h)
            return output(o, dy.cmult(dy.logistic(i), dy.tanh(u)))
        total = dy.esum([h for h, _ in states])
        i, o, u = gates(dy.affine_transform([t["x.bias"], t["x.weight"], x, t["hs.weight"], total]), 3, t.h)
        fx = t.linear("fx", x)
        kept = [dy.cmult(dy.logistic(fx + t["fh.weight"] * h), c) for h, c in states]
        return output(o, dy.esum([dy.cmult(dy.logistic(i), dy.tanh(u)), *kept]))

    def run() -> Any:
        trees, _, ys = t.examples
        return dy.esum([t.loss(walk(tree)[0], y) for tree, y in zip(trees, ys)])

    return run


def parser(t: Task) -> Loss:
    rows = t.rows(0)
    stand_ins = [t.put(f"empty.{k}", row) for k, row in enumerate(t.state["empty"])]

    def run() -> Any:
        losses = []
        for xs, y in zip(rows(), t.examples[1]):
            buffer = [dy.tanh(t.linear("tokens.0", x)) for x in xs]
            stack: list[Any] = []
            n, i = len(buffer), 0
            while i < n or len(stack) > 1:
                below = stack[-2] if len(stack) > 1 else stand_ins[0]
                top = stack[-1] if stack else stand_ins[1]
                ahead = buffer[i] if i < n else stand_ins[2]
                s = t.linear("scores", dy.tanh(t.linear("hidden", dy.concatenate([below, top, ahead]))))
                a = choose(s.vec_value(), i < n, len(stack) > 1)
                losses.append(dy.pickneglogsoftmax(s, a))
                if a == 0:
                    stack.append(buffer[i])
                    i += 1
                else:
                    right = stack.pop()
                    joined = dy.concatenate([stack.pop(), right])
                    stack.append(dy.tanh(t.linear("left.0" if a == 1 else "right.0", joined)))
            losses.append(t.loss(stack[0], y))
        return dy.esum(losses)

    return run


def halting(t: Task) -> Loss:
    def run() -> Any:
        losses = []
        for x, y in zip(*t.examples):
            xp = t.linear("x", dy.inputTensor(x))
            s, used, parts, chances = t.zero(), 0.0, [], []
            for n in range(1, MOST + 1):
                s = dy.tanh(xp + t["s.weight"] * s)
                q = dy.logistic(t.linear("halt", s))
                used += q.value()
                if used >= 1 - EPSILON or n == MOST:
                    break
                parts.append(dy.cmult(s, q))
                chances.append(q)
            rest = dy.inputTensor(np.ones(1, np.float32))
            rest = rest - dy.esum(chances) if chances else rest
            losses.append(t.loss(dy.esum([*parts, dy.cmult(s, rest)]), y))
            losses.append((rest + n) * PONDER)
        return dy.esum(losses)

    return run


FORMS: dict[str, Callable[[Task], Loss]] = {
    "W1": loop, "W1L": lstm_loop, "W2": deciding, "W3": binary_tree, "W3A": child_sum, "W5": parser, "W6": halting,
}  # fmt: skip


def main() -> None:
    given = pickle.load(sys.stdin.buffer)
    task = Task(given)
    build = FORMS[given["name"]](task)
    for _ in sys.stdin.buffer:
        start = time.process_time()
        for p in task.weights.parameters_list():
            p.scale_gradient(0.0)
        dy.renew_cg()
        loss = build()
        value = loss.value()
        loss.backward()
        print(json.dumps({"loss": value, "seconds": time.process_time() - start}), flush=True)


if __name__ == "__main__":
    main()
