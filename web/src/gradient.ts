/** Where the gradient goes: which nodes a backward pass reaches, and where a path to them ends if it does not. */

import type { Graph } from "./graph";

export interface Reach {
  /** Whether the gradient reaches it; null where nothing can be said (no backward pass ran). */
  reached: boolean | null;
  sentence: string;
  /** From the node to the root of the pass if reached; otherwise the nodes where paths to the root end. */
  path: number[];
  stops: { node: number; why: string }[];
}

/** Backward nodes that the passes of the step walk through. */
export function walked(graph: Graph): Uint8Array {
  const wire = graph.wire.grads;
  const seen = new Uint8Array(wire.name.length);
  const stack: number[] = [];
  for (const pass of graph.wire.backwards) {
    for (const root of pass[2]) {
      const grad = graph.valueGrad[root]!;
      if (grad >= 0 && seen[grad] === 0) {
        seen[grad] = 1;
        stack.push(grad);
      }
    }
  }
  for (let grad = stack.pop(); grad !== undefined; grad = stack.pop()) {
    for (let k = graph.firstParent[grad]!; k < graph.firstParent[grad + 1]!; k++) {
      const back = wire.parent[k]!;
      if (back === 0 && wire.parent_input[k]! < 0) continue;
      const parent = grad - back;
      if (seen[parent] === 0) {
        seen[parent] = 1;
        stack.push(parent);
      }
    }
  }
  return seen;
}

/** Nodes that the gradient reaches: their own backward nodes are walked, or they are leaves that it is added into. */
export function reachedNodes(graph: Graph): Uint8Array {
  const seen = walked(graph);
  const found = new Uint8Array(graph.size);
  const leaf = graph.wire.grads.leaf;
  for (let grad = 0; grad < seen.length; grad++) {
    if (seen[grad] === 0) continue;
    found[leaf[grad]! >= 0 ? graph.valueNode[leaf[grad]!]! : graph.gradNode[grad]!] = 1;
  }
  for (const pass of graph.wire.backwards) for (const root of pass[2]) if (graph.valueGrad[root]! >= 0) found[graph.valueNode[root]!] = 1;
  return found;
}

/** "Does gradient reach this, and if not, where does it stop?" */
export function reach(graph: Graph, node: number, reached = reachedNodes(graph)): Reach {
  const passes = graph.wire.backwards;
  const roots = new Set<number>();
  for (const pass of passes) for (const root of pass[2]) roots.add(graph.valueNode[root]!);
  const output = graph.outputsOf(node)[0];
  const name = output === undefined ? `$${node}` : graph.valueName(output);
  if (passes.length === 0) {
    return { reached: null, sentence: "No backward pass ran in this step.", path: [], stops: [] };
  }
  if (reached[node] === 1) {
    const path = pathTo(graph, node, roots, (next) => reached[next] === 1);
    const end = path[path.length - 1];
    const root = end === undefined ? "the root" : graph.valueName(graph.firstOutput[end]!);
    return {
      reached: true, path, stops: [],
      sentence: roots.has(node) ? `Yes: the backward pass begins here, at ${root}.` : `Yes: the gradient of ${root} comes back to ${name}.`,
    };
  }
  const below = graph.closure([node], "descendants");
  const leads = [...roots].some((root) => below[root] === 1 || root === node);
  if (!leads) {
    return { reached: false, sentence: `No: nothing that a backward pass began from uses ${name}.`, path: [], stops: [] };
  }
  // Walk down from the node towards the root; where the path asks for no gradient any more, it was cut.
  const above = graph.closure(roots, "ancestors");
  for (const root of roots) above[root] = 1;
  const stops: Reach["stops"] = [];
  const seen = new Set([node]);
  const stack = [node];
  const asks = (at: number): boolean => graph.outputsOf(at).some((value) => graph.type(value).grad);
  if (!asks(node)) {
    const why = graph.cut(node) !== "" ? graph.cut(node) : graph.isInput(node) ? "it does not ask for gradients (requires_grad is False)" : "nothing that it was made from asks for gradients";
    return { reached: false, sentence: `No: ${name} asks for no gradient: ${why}.`, path: [], stops: [{ node, why }] };
  }
  for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
    for (const user of graph.users(at)) {
      if (above[user] === 0 || seen.has(user)) continue;
      seen.add(user);
      if (graph.cut(user) !== "") stops.push({ node: user, why: graph.cut(user) });
      else if (!asks(user)) stops.push({ node: user, why: "its result asks for no gradient" });
      else stack.push(user);
    }
  }
  const first = stops[0];
  const where = first === undefined ? "" : ` at $${first.node} (${graph.op(first.node)}: ${first.why})`;
  return {
    reached: false, path: [], stops: stops.slice(0, 20),
    sentence: stops.length === 0 ? `No: no backward node leads from the root to ${name}.` : `No: every path from ${name} to the root is cut${where}.`,
  };
}

/** A shortest path along which values flow from `start` to one of `ends`. */
function pathTo(graph: Graph, start: number, ends: ReadonlySet<number>, allowed: (node: number) => boolean): number[] {
  const before = new Map<number, number>([[start, -1]]);
  const queue = [start];
  for (let at = 0; at < queue.length; at++) {
    const node = queue[at]!;
    if (ends.has(node)) {
      const path = [];
      for (let back = node; back >= 0; back = before.get(back)!) path.push(back);
      return path.reverse();
    }
    for (const user of graph.users(node)) {
      if (before.has(user) || !allowed(user)) continue;
      before.set(user, node);
      queue.push(user);
    }
  }
  return [start];
}
