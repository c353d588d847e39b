"""Graphs for others: networkx and pandas, each needed only when asked for, and a table for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from plait._errors import PlaitError
from plait.graph._model import Graph, Node
from plait.graph._notation import op_name, value_name, value_type

if TYPE_CHECKING:
    import networkx
    import pandas


def to_networkx(graph: Graph) -> networkx.MultiDiGraph:
    """The nodes and edges, keyed by node id; an edge carries its value, argument position, dtype and shape."""
    try:
        import networkx
    except ImportError:
        raise PlaitError("to_networkx() needs networkx; `pip install networkx`") from None
    made = networkx.MultiDiGraph()
    for node in graph.nodes:
        made.add_node(node.id, **_facts(graph, node))
    for node in graph.nodes:
        for edge in node.inputs:
            value = graph.values[edge.value]
            made.add_edge(value.node, node.id, value=value.id, position=edge.position, dtype=value.dtype,
                          shape=value.shape, requires_grad=value.requires_grad)  # fmt: skip
    return made


def to_pandas(graph: Graph) -> pandas.DataFrame:
    """One row a node; the index is the node's id, `inputs` are the nodes its arguments come from."""
    try:
        import pandas
    except ImportError:
        raise PlaitError("to_pandas() needs pandas; `pip install pandas`") from None
    rows = [
        _facts(graph, node) | {"inputs": tuple(graph.values[edge.value].node for edge in node.inputs)}
        for node in graph.nodes
    ]
    columns = [*_FACTS, "inputs"]
    frame = pandas.DataFrame(rows, index=[node.id for node in graph.nodes], columns=columns)
    frame.index.name = "node"
    return frame


def to_html(graph: Graph, most: int = 30) -> str:
    """The first nodes as a table, for a notebook."""
    rows = []
    for node in graph.nodes[:most]:
        site = graph.site_of(node)
        cells = (
            value_name(graph, node.outputs[0]) if node.outputs else "",
            node.op if node.kind == "input" else op_name(node.op),
            ", ".join(value_name(graph, edge.value) for edge in node.inputs[:6]),
            ", ".join(value_type(graph.values[each]) for each in node.outputs[:6]),
            "" if site is None else f"{site.line}: {site.expression}",
        )
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    heads = "".join(f"<th>{head}</th>" for head in ("value", "op", "inputs", "makes", "line"))
    more = f"<p>and {len(graph.nodes) - most:,} nodes more</p>" if len(graph.nodes) > most else ""
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"<p>{escape(repr(graph))}</p>{table}{more}"


_FACTS = (
    "kind", "op", "name", "outputs", "dtype", "shape", "requires_grad", "file", "line", "expression", "function",
    "scope", "region", "cut", "saved_bytes", "in_backward",
)  # fmt: skip


def _facts(graph: Graph, node: Node) -> dict[str, Any]:
    site, scope = graph.site_of(node), graph.scope_of(node)
    first = graph.values[node.outputs[0]] if node.outputs else None
    values = (
        node.kind, op_name(node.op), first.name if first else None,
        ", ".join(value_type(graph.values[each]) for each in node.outputs),
        first.dtype if first else None, first.shape if first else None, bool(first and first.requires_grad),
        site.file if site else None, site.line if site else None, site.expression if site else None,
        site.function if site else None, scope.path if scope else None, node.region, node.cut, node.saved_bytes,
        node.in_backward,
    )  # fmt: skip
    return dict(zip(_FACTS, values, strict=True))
