"""Which values hold a batch row by row: every operation up to them treats the entries of dimension 0 alone."""

from __future__ import annotations

from plait.graph import Node
from plait.graph._notation import op_name
from plait.rules._case import Case

FLAGS = frozenset({"any", "all"})
REDUCTIONS = frozenset({
    "mean", "sum", "max", "min", "amax", "amin", "norm", "std", "var", "median", "prod", "logsumexp", "nanmean",
    "nansum", "vector_norm", "linalg_norm", "linalg_vector_norm", "count_nonzero", "quantile",
}) | FLAGS  # fmt: skip

# Row by row for any input with rows in dimension 0 (inner sizes may change).
_ROWWISE = frozenset(
    """
    add sub mul div neg abs pow sqrt rsqrt exp log log1p expm1 sin cos tan tanh sigmoid relu relu6 gelu silu elu selu
    leaky_relu softplus hardtanh mish prelu celu clamp clip clamp_min clamp_max where maximum minimum round floor ceil
    sign square reciprocal rsub add_ sub_ mul_ div_ relu_ tanh_ sigmoid_ dropout alpha_dropout erf lerp addcmul addcdiv
    eq ne lt le gt ge logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not float double half to clone
    contiguous detach detach_ data type_as masked_fill masked_fill_ nan_to_num isfinite isnan isinf zeros_like ones_like
    full_like rand_like randn_like requires_grad_ true_divide subtract multiply divide logsigmoid softsign xlogy
    bfloat16 int long bool
""".split()
)
_INNER = frozenset(
    """
    linear rnn_tanh_cell rnn_relu_cell gru_cell lstm_cell layer_norm rms_norm normalize conv1d conv2d conv3d max_pool2d
    avg_pool2d max_pool1d avg_pool1d adaptive_avg_pool2d adaptive_max_pool2d flatten softmax log_softmax cat concat
    mean sum max min amax amin norm argmax std var logsumexp squeeze unsqueeze reshape view getitem matmul chunk split
    group_norm instance_norm stack embedding bilinear glu
""".split()
)
_MADE = frozenset(
    """
    randn rand zeros ones empty full randint tensor as_tensor arange linspace from_numpy normal bernoulli multinomial
    eye     zeros_like ones_like expand_as expand broadcast_to
""".split()
)


def full_reduction(case: Case, node: Node) -> bool:
    """Whether an operation reduces over all rows (at least two) of its first input."""
    if op_name(node.op) not in REDUCTIONS or not node.inputs or not node.outputs:
        return False
    graph = case.graph
    value, result = graph.values[node.inputs[0].value], graph.values[node.outputs[0]]
    if not value.shape or value.shape[0] < 2:
        return False
    return not result.shape or (
        len(result.shape) < len(value.shape) and result.shape == value.shape[1:] != value.shape[:-1]
    )


def row_family(case: Case, value: int) -> set[int] | None:
    """The nodes that hold the same rows as this value, up to its sources; None if rows meet on the way."""
    graph = case.graph
    rows = graph.values[value].shape[0]
    start = graph.values[value].node
    family, stack = {start}, [start]
    taken: dict[int, set[int]] = {}  # pieces of a larger tensor: the node that cut it, and which pieces
    while stack:
        node = graph.nodes[stack.pop()]
        if node.kind == "input" or op_name(node.op) in _MADE:
            continue
        if op_name(node.op) in ("unbind", "select", "getitem") and _cuts_other(case, node, rows):
            continue
        if not _by_row(case, node, rows):
            return None
        for edge in node.inputs:
            source = graph.values[edge.value]
            if source.node in family or not source.shape or source.shape[0] != rows:
                continue
            if source.leaf and source.requires_grad:
                continue  # a parameter whose first size happens to be the number of rows
            family.add(source.node)
            stack.append(source.node)
        for edge in node.inputs:
            source = graph.values[edge.value]
            if _cuts_other(case, graph.nodes[source.node], rows):
                maker = graph.nodes[source.node]
                whole = maker.id if len(maker.outputs) > 1 else graph.values[maker.inputs[0].value].node
                taken.setdefault(whole, set()).add(edge.value)
    # Pieces of a larger tensor are rows of a batch if a state goes through several of them (steps in time), and
    # examples of their own if each is computed with alone.
    if any(len(pieces) < 2 for pieces in taken.values()):
        return None
    return family


def _cuts_other(case: Case, node: Node, rows: int) -> bool:
    """Whether an operation takes pieces of a tensor along its first dimension; the rows are its second."""
    if op_name(node.op) not in ("unbind", "select", "getitem") or len(node.inputs) != 1:
        return False
    first, out = case.graph.values[node.inputs[0].value].shape, case.graph.values[node.outputs[0]].shape
    return len(out) == len(first) - 1 and out == first[1:] and out[:1] == (rows,)


def _by_row(case: Case, node: Node, rows: int) -> bool:
    op = op_name(node.op)
    values = case.graph.values
    results = [values[out] for out in node.outputs]
    if not results or any(out.shape[:1] != (rows,) for out in results):
        return False
    if op in _ROWWISE:
        return True
    if op not in _INNER or not node.inputs:
        return False
    first = values[node.inputs[0].value]
    if first.shape[:1] != (rows,):
        return False
    if op in ("linear", "matmul", "rnn_tanh_cell", "rnn_relu_cell", "gru_cell", "lstm_cell"):
        # With one dimension less the rows would be features.
        return len(first.shape) >= 2 and len(results[0].shape) >= 2
    if op in ("conv1d", "conv2d", "conv3d"):
        return len(first.shape) == {"conv1d": 3, "conv2d": 4, "conv3d": 5}[op]
    if op in ("softmax", "log_softmax", "layer_norm", "rms_norm", "normalize", "glu"):
        return len(first.shape) >= 2
    if op in (
        "cat",
        "concat",
        "stack",
        "getitem",
        "reshape",
        "view",
        "squeeze",
        "unsqueeze",
        "flatten",
        "chunk",
        "split",
    ):
        return all(values[edge.value].shape[:1] == (rows,) for edge in node.inputs) and len(results[0].shape) >= 1
    return len(first.shape) >= 2
