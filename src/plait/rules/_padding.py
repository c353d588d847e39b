"""Which values are padded, along which dimensions, and where the padding came from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plait.graph import Node, Site
from plait.graph._notation import op_name
from plait.rules._case import Case

_SAME = frozenset(
    """
    relu tanh sigmoid gelu silu elu leaky_relu dropout layer_norm abs neg exp sqrt clamp float double to contiguous
    clone     add sub div pow mul add_ sub_ div_ rsub softplus half bfloat16 detach square log requires_grad_ type_as
    alpha_dropout feature_dropout relu_ normalize where hardtanh mish selu cos sin data
""".split()
)
_ZERO = frozenset(
    """
    relu tanh gelu silu elu leaky_relu dropout abs neg sqrt float double to contiguous clone div mul div_ half bfloat16
    detach square requires_grad_ type_as relu_ transpose swapaxes permute movedim t T mT unsqueeze getitem
""".split()
)
_MASKS = {"mul", "mul_", "where", "masked_fill", "masked_fill_", "masked_select"}
_RECURRENT = {"rnn_tanh", "rnn_relu", "lstm", "gru"}
_BUFFERS = {"zeros", "full", "new_zeros", "new_full", "zeros_like", "empty"}


@dataclass(frozen=True)
class Padding:
    """Padding of a value; `source` is the node that padded, of this graph or of one before, and `site` its place.

    `dims` are the padded dimensions. `strong`: sequences of different length, not a border for a convolution."""

    source: Node
    dims: frozenset[int]
    amount: str
    strong: bool
    site: Site | None = None
    plain: bool = True  # no mask has been added to it
    recurrent: bool = True
    zero: bool = False  # the padding is zeros still, so a sum does not see it

    def cure(self, op: str) -> str:
        """What to do instead."""
        if op in ("getitem", "select"):
            return "Take step `length - 1` of each row, or pack the sequences (`pack_padded_sequence`)."
        if op in ("max", "min", "amax", "amin", "logsumexp"):
            return "Fill the padded steps with -inf (`masked_fill`) before, +inf for a minimum."
        if op == "sum":
            return "Multiply with a mask before, so that padded steps add nothing."
        if op.endswith("_loss") or op.startswith("binary_cross_entropy"):
            return 'Take the loss with `reduction="none"`, multiply with a mask and divide by the number of real steps.'
        if op in ("mean", "nanmean"):
            return "Sum over the real steps only and divide by their number (multiply with a mask before)."
        if op in ("batch_norm", "instance_norm"):
            return "Normalise the real steps only (`x[mask]`), or use a normalisation that does not mix steps."
        if op in ("softmax", "scaled_dot_product_attention", "multi_head_attention_forward"):
            return "Give the attention a mask (`key_padding_mask`, `masked_fill` with -inf before the softmax)."
        return "Pack the sequences (`pack_padded_sequence`), so that each row stops at its own length."


def padded_values(case: Case) -> dict[int, Padding]:
    """For every value that holds padding what is known of it."""
    found: dict[int, Padding] = {}
    pads = {op for op in {node.op for node in case.graph.nodes} if op_name(op) in _SOURCES}
    for node in case.graph.nodes:
        if node.kind == "input" and node.site is not None and node.op in ("data", "carried"):
            carried = _carried(case, node)
            if carried is not None:
                found[node.outputs[0]] = carried
        if node.kind != "op" or not node.outputs or not (found or node.op in pads):
            continue
        source = _source(case, node) if node.op in pads else None
        for index, out in enumerate(node.outputs):
            made = source if source is not None and index == 0 else _through(case, node, index, found)
            if made is not None and made.dims:
                found[out] = made if made is source or _keeps_zero(node) else replace(made, zero=False)
    return found


def _keeps_zero(node: Node) -> bool:
    """Whether an operation makes zeros of zeros."""
    op = op_name(node.op)
    if op == "embedding":
        return "padding_idx=0" in node.arguments
    return op in _ZERO or (op == "linear" and len(node.inputs) == 2)


def _number(arguments: str) -> float | None:
    """The padding value among the arguments of `pad_sequence`."""
    for part in arguments.replace("padding_value=", "").split(","):
        try:
            return float(part)
        except ValueError:
            continue
    return 0.0


def _carried(case: Case, node: Node) -> Padding | None:
    """What the step before padded."""
    shape = case.graph.values[node.outputs[0]].shape
    for other in case.run.cases:
        if other is case:
            continue
        for each in other.graph.nodes:
            if each.site == node.site and each.kind == "op" and other.graph.values[each.outputs[0]].shape == shape:
                return _source(other, each)
    return None


_SOURCES = frozenset({"pad_sequence", "pad", "_pad_packed_sequence", "setitem", "copy_"})


def _source(case: Case, node: Node) -> Padding | None:
    """The padding that an operation puts in, which is one of `_SOURCES`."""
    graph = case.graph
    op = op_name(node.op)
    out = graph.values[node.outputs[0]]
    if op == "pad_sequence":
        lengths = [graph.values[edge.value].shape[0] for edge in node.inputs if graph.values[edge.value].shape]
        if len(set(lengths)) < 2:
            return None
        time = 1 if "True" in node.arguments.split(",")[0] or "batch_first=True" in node.arguments else 0
        if out.shape[time : time + 1] != (max(lengths),):
            time = 1 - time
        return Padding(
            node, frozenset({time}), _lengths(lengths), True, case.site(node), zero=_number(node.arguments) == 0
        )
    if op == "pad" and node.inputs:
        return _one_sided(case, node)
    if op == "_pad_packed_sequence":
        first = "True" in node.arguments
        return Padding(
            node, frozenset({1 if first else 0}), "the shorter rows end in padding", True, case.site(node), zero=True
        )
    if op in ("setitem", "copy_") and node.writes:
        return _filled(case, node)
    return None


def _one_sided(case: Case, node: Node) -> Padding | None:
    """`pad` at one end of some dimensions: what one does to sequences, while borders for a convolution have two."""
    values = case.graph.values
    before, after = values[node.inputs[0].value].shape, values[node.outputs[0]].shape
    text = node.arguments.split("]")[0].replace("[", "").replace("(", "").replace("pad=", "")
    amounts = [int(part) for part in (each.strip() for each in text.split(",")) if part.lstrip("-").isdigit()]
    if len(before) != len(after) or len(amounts) < 2:
        return None
    dims = set()
    for place in range(0, len(amounts) - 1, 2):
        dim = len(after) - 1 - place // 2
        low, high = amounts[place], amounts[place + 1]
        if dim < 0 or low < 0 or high < 0:
            return None
        if after[dim] > before[dim]:
            if min(low, high) > 0:
                return None
            dims.add(dim)
    if len(dims) != 1:
        return None
    dim = next(iter(dims))
    return Padding(
        node, frozenset(dims), f"{after[dim] - before[dim]} of {after[dim]} steps are padding", False, case.site(node)
    )


def _filled(case: Case, node: Node) -> Padding | None:
    """Rows of a buffer of zeros that were filled to different lengths."""
    values = case.graph.values
    buffer = case.maker(case.roots[node.writes[0]])
    if op_name(buffer.op) not in _BUFFERS or len(node.inputs) < 2:
        return None
    shape = values[buffer.outputs[0]].shape
    lengths = []
    for other in case.graph.nodes[: node.id + 1]:
        if other.writes and case.roots[other.writes[0]] == buffer.outputs[0] and len(other.inputs) > 1:
            written = values[other.inputs[-1].value].shape
            if len(written) == len(shape) - 1 and ":" in other.arguments:
                lengths.append(written[0])
    if len(shape) < 2 or len(set(lengths)) < 2 or max(lengths) > shape[1]:
        return None
    zero = "zeros" in buffer.op
    return Padding(node, frozenset({1}), _lengths(lengths), True, case.site(node), zero=zero)


def _lengths(lengths: list[int]) -> str:
    longest = max(lengths)
    padding = sum(longest - each for each in lengths)
    return f"rows of length {min(lengths)} to {longest}, {padding} of {longest * len(lengths)} steps are padding"


def _through(case: Case, node: Node, index: int, found: dict[int, Padding]) -> Padding | None:
    """How padding goes through an operation."""
    values = case.graph.values
    carriers = [edge for edge in node.inputs if edge.value in found]
    if not carriers:
        return None
    edge = carriers[0]
    padding = found[edge.value]
    before, after = values[edge.value].shape, values[node.outputs[index]].shape
    op = op_name(node.op)
    if op in _MASKS and len(node.inputs) > 1 and _masked(case, node, found):
        return None
    if op in ("add", "add_", "sub") and len(node.inputs) > 1 and _masked(case, node, found):
        return replace(padding, plain=False)
    if op in _SAME and len(after) == len(before):
        return padding
    if op == "linear" and len(before) - 1 not in padding.dims:
        return padding
    if op == "embedding":
        # The table may keep a row of zeros for the padding, but the steps are there all the same.
        return padding if len(after) == len(before) + 1 else None
    if op in _RECURRENT:
        if index or any("batch_sizes" in each.position for each in node.inputs) or node.inputs[0].value != edge.value:
            return None
        return padding
    if op in ("transpose", "swapaxes", "permute", "movedim", "t", "T", "mT"):
        return _moved(padding, node, before)
    if op == "unsqueeze":
        return _shifted(padding, _first_number(node), len(after), 1)
    if op in ("cat", "concat") and len(before) == len(after):
        return padding
    if op in ("conv1d",) and padding.strong:
        return padding if before[-1] and len(before) - 1 in padding.dims else None
    if op in ("multi_head_attention_forward",) and index == 0:
        return replace(padding, recurrent=False)
    if op in ("softmax", "scaled_dot_product_attention", "matmul", "bmm", "baddbmm"):
        return _product(case, node, found, after) if op in ("matmul", "bmm") else padding if before == after else None
    if op == "getitem" and len(node.inputs) == 1 and "None" not in node.arguments:
        return _indexed(padding, node, before, after)
    return None


def _masked(case: Case, node: Node, found: dict[int, Padding]) -> bool:
    """Whether one of the arguments is a mask: made from a comparison, from flags, or given as booleans."""
    for edge in node.inputs:
        value = case.graph.values[edge.value]
        if edge.value in found or (value.leaf and value.requires_grad):
            continue
        if value.dtype == "bool" or (value.dtype.startswith("i") and value.dtype != "i64"):
            return True
        near = [value.node]
        for _ in range(4):
            near += [source for each in near for source in case.sources[each]]
        if any(case.graph.values[out].dtype == "bool" for each in set(near) for out in case.graph.nodes[each].outputs):
            return True
        if case.graph.nodes[value.node].kind == "input" and not value.requires_grad and len(value.shape) >= 2:
            return True
    return False


def _moved(padding: Padding, node: Node, shape: tuple[int, ...]) -> Padding | None:
    rank = len(shape)
    numbers = [int(p) % rank for p in (e.strip(" []()") for e in node.arguments.split(",")) if p.lstrip("-").isdigit()]
    op = op_name(node.op)
    if op in ("t", "T") and rank == 2:
        numbers, op = [0, 1], "transpose"
    if op == "mT":
        numbers, op = [rank - 2, rank - 1], "transpose"
    if op == "permute" and len(numbers) == rank:
        return replace(padding, dims=frozenset(numbers.index(dim) for dim in padding.dims))
    if op in ("transpose", "swapaxes") and len(numbers) == 2:
        swap = {numbers[0]: numbers[1], numbers[1]: numbers[0]}
        return replace(padding, dims=frozenset(swap.get(dim, dim) for dim in padding.dims))
    return None


def _first_number(node: Node) -> int | None:
    text = node.arguments.replace("dim=", "").split(",")[0].strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _shifted(padding: Padding, dim: int | None, rank: int, by: int) -> Padding | None:
    if dim is None:
        return None
    dim %= rank
    return replace(padding, dims=frozenset(each + by if each >= dim else each for each in padding.dims))


def _product(case: Case, node: Node, found: dict[int, Padding], after: tuple[int, ...]) -> Padding | None:
    """Rows of the first factor and columns of the second stay padded (scores of attention)."""
    rank = len(after)
    if len(node.inputs) < 2:
        return None
    left, right = (found.get(edge.value) for edge in node.inputs[:2])
    dims: set[int] = set()
    shapes = [case.graph.values[edge.value].shape for edge in node.inputs[:2]]
    if left is not None and len(shapes[0]) == rank:
        dims |= {dim for dim in left.dims if dim < rank - 1}
    if right is not None and len(shapes[1]) == rank and rank - 1 in right.dims:
        dims.add(rank - 1)
    base = left or right
    return None if base is None or not dims else replace(base, dims=frozenset(dims))


def _indexed(padding: Padding, node: Node, before: tuple[int, ...], after: tuple[int, ...]) -> Padding | None:
    """Slices keep the padded dimension where it kept its size; integers before it move it."""
    parts = [part.strip() for part in node.arguments.strip("[]").split(",")]
    kept: dict[int, int] = {}
    dim = out = 0
    for part in parts:
        if part == "...":
            rest = len(before) - (len(parts) - 1)
            for _ in range(max(rest, 0)):
                kept[dim] = out
                dim, out = dim + 1, out + 1
        elif ":" in part:
            kept[dim] = out
            dim, out = dim + 1, out + 1
        elif part.lstrip("-").isdigit():
            dim += 1
        else:
            return None
    while dim < len(before):
        kept[dim] = out
        dim, out = dim + 1, out + 1
    dims = {kept[each] for each in padding.dims if each in kept and kept[each] < len(after)
            and after[kept[each]] == before[each]}  # fmt: skip
    return replace(padding, dims=frozenset(dims)) if dims else None
