"""Padding takes part in a result.

What it finds: sequences of different length that were padded, and then the last step of every row, a mean, a sum, a
maximum, a loss, batch statistics or attention taken over the padded dimension, without a mask.

Why it matters: the result of one example depends on how long its neighbours are. Nothing is raised.

Example::

    x = pad_sequence(sequences, batch_first=True)
    output, _ = rnn(x)
    last = output[:, -1]                  # padding, for all but the longest

Instead::

    last = output[torch.arange(len(lengths)), lengths - 1]      # or pack, or plait.batch on one sequence

Limits: padding is known where the program pads (`pad_sequence`, `pad` on one side, filling part of the rows of a
buffer, unpacking), not where the data come padded. A multiplication, `where` or `masked_fill` with a mask ends it.

Sources: pytorch/pytorch#70529; huggingface/transformers#278.
"""

from collections.abc import Iterator

from plait.graph import Node
from plait.graph._notation import op_name
from plait.rules._case import Case
from plait.rules._padding import Padding, padded_values
from plait.rules._rule import Finding
from plait.rules._words import at, name, says

_LARGEST = {"max", "min", "amax", "amin", "logsumexp"}
_LOSSES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
           "binary_cross_entropy_with_logits"}  # fmt: skip
_NORMS = {"batch_norm", "instance_norm"}
_RECURRENT = {"rnn_tanh", "rnn_relu", "lstm", "gru"}


def check(case: Case) -> Iterator[Finding | None]:
    """Every use of a padded value."""
    padded = padded_values(case)
    if not padded:
        return
    graph = case.graph
    for node in graph.nodes:
        if node.kind != "op" or not node.inputs or node.in_backward:
            continue
        first = node.inputs[0].value
        padding = padded.get(first)
        what = None if padding is None else _reads(case, node, first, padding)
        if padding is None:
            what, padding = _attention(case, node, padded)
        if what is None or padding is None:
            what, padding = _state(case, node, padded)
        if what is None or padding is None:
            continue
        yield case.finding(
            f"{says(graph, node)}{at(case.site(node))} {what} {name(graph, node.inputs[0].value)}, which was padded"
            f"{at(padding.site)}: {padding.amount}.",
            "The result of a row depends on how far it was padded, so on the other rows of its batch.",
            padding.cure(op_name(node.op)),
            [node],
            ("used", case.site(node)),
            ("padded", padding.site),
        )
        return


def _reads(case: Case, node: Node, value: int, padding: Padding) -> str | None:
    graph = case.graph
    op, shape = op_name(node.op), graph.values[value].shape
    out = graph.values[node.outputs[0]].shape if node.outputs else ()
    if op in ("getitem", "select") and len(node.inputs) == 1:
        dim = _last(node, len(shape))
        return "takes the last step of" if dim in padding.dims else None
    if op in ("mean", "nanmean") and padding.dims & _reduced(node, shape, out):
        return "averages over the padded steps of"
    if op in _LARGEST and out and padding.strong and padding.dims & _reduced(node, shape, out):
        return "also looks at the padded steps of"
    if op == "sum" and out and padding.strong and not padding.zero and padding.dims & _reduced(node, shape, out):
        return "adds up the padded steps of"
    whole = op in _LOSSES and not out and "'sum'" not in node.arguments
    if whole and padding.strong and len(shape) > 1 and all(edge.position != "weight" for edge in node.inputs):
        return "averages over the padded steps of"
    if op in _NORMS and len(shape) >= 3 and padding.dims - {1} and case.graph.values[value].dtype.startswith("f"):
        return "takes its statistics over the padded steps of"
    if op == "softmax" and padding.plain and _softmax_dim(node, len(shape)) in padding.dims and len(shape) >= 3:
        return "spreads attention over the padded steps of"
    return None


def _last(node: Node, rank: int) -> int | None:
    """The dimension of which an index takes the last entry."""
    parts = [part.strip() for part in node.arguments.strip("[]").split(",")]
    if node.op == "select":
        return int(parts[0]) % rank if len(parts) == 2 and parts[1] == "-1" and parts[0].lstrip("-").isdigit() else None
    dim = 0
    for place, part in enumerate(parts):
        if part == "...":
            dim = rank - (len(parts) - place - 1)
        elif part == "None":
            continue
        else:
            if part == "-1":
                return dim
            dim += 1
    return None


def _reduced(node: Node, shape: tuple[int, ...], out: tuple[int, ...]) -> set[int]:
    if not out or (len(out) == len(shape) and all(each == 1 for each in out)):
        return set(range(len(shape)))
    dims = list(node.arguments.replace("dim=", "").replace("[", "").replace("]", "").split(","))
    numbers = {int(part) % len(shape) for part in (each.strip() for each in dims) if part.lstrip("-").isdigit()}
    return numbers if len(shape) - len(numbers) == len(out) or len(out) == len(shape) else set()


def _softmax_dim(node: Node, rank: int) -> int | None:
    text = node.arguments.replace("dim=", "").split(",")[0].strip()
    return int(text) % rank if text.lstrip("-").isdigit() else None


def _attention(case: Case, node: Node, padded: dict[int, Padding]) -> tuple[str | None, Padding | None]:
    """Attention over a padded key without a mask."""
    op = op_name(node.op)
    keys = {"scaled_dot_product_attention": 1, "multi_head_attention_forward": 1}.get(op)
    if keys is None or len(node.inputs) <= keys:
        return None, None
    positions = {edge.position for edge in node.inputs}
    if "attn_mask" in positions or "key_padding_mask" in positions or ("3" in positions and op.startswith("scaled")):
        return None, None
    padding = padded.get(node.inputs[keys].value)
    return ("attends to the padded steps of", padding) if padding is not None and padding.plain else (None, None)


def _state(case: Case, node: Node, padded: dict[int, Padding]) -> tuple[str | None, Padding | None]:
    """The last state of a recurrent layer that ran over padding."""
    for edge in node.inputs:
        maker = case.maker(edge.value)
        if op_name(maker.op) not in _RECURRENT or not maker.inputs or case.graph.values[edge.value].output < 1:
            continue
        padding = padded.get(maker.inputs[0].value)
        if (
            padding is not None
            and not any("batch_sizes" in each.position for each in maker.inputs)
            and padding.recurrent
        ):
            return "uses the last state of", padding
    return None, None
