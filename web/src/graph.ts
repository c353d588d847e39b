/** One graph of a recording, as the page works with it: typed columns, the fold tree over them, and walks. */

import { FOLD_KINDS, starts, sums, type FoldKind, type GraphWire } from "./wire";

export interface ValueType {
  dtype: string;
  shape: readonly number[];
  device: string;
  grad: boolean;
  leaf: boolean;
}

export interface Fold {
  id: number;
  kind: FoldKind;
  label: string;
  parent: number;
  site: number;
  /** Fewest and most rounds of a loop; null where they cannot be known. */
  trips: readonly [number, number] | null;
  depth: number;
  members: Int32Array;
  children: number[];
}

export interface Sample {
  output: number;
  what: "value" | "gradient";
  text: string;
}

export class Graph {
  readonly size: number;
  readonly site: Int32Array;
  readonly region: Int32Array;
  readonly firstInput: Int32Array;
  readonly inputValue: Int32Array;
  readonly valueNode: Int32Array;
  readonly valueGrad: Int32Array;
  /** First value of each node; its outputs follow one another. */
  readonly firstOutput: Int32Array;
  readonly outputs: Int32Array;
  readonly gradNode: Int32Array;
  readonly firstParent: Int32Array;
  readonly regionParent: Int32Array;
  readonly regionSite: Int32Array;
  readonly folds: Fold[] = [];
  readonly foldOfNode: Int32Array;
  readonly foldOfDecision: Int32Array;
  readonly decisionValue: Int32Array;
  readonly decisionSite: Int32Array;
  readonly decisionRegion: Int32Array;
  readonly decisionAfter: Int32Array;
  readonly samples = new Map<number, Sample[]>();
  readonly types: ValueType[];
  private readonly savedStart: Int32Array;
  private userStart: Int32Array | null = null;
  private userList: Int32Array | null = null;
  private readonly scopeById: Map<number, [string, string]>;

  constructor(readonly wire: GraphWire) {
    const nodes = wire.nodes;
    this.size = nodes.op.length;
    this.site = sums(nodes.site);
    this.region = sums(nodes.region);
    this.firstInput = starts(nodes.inputs);
    this.valueNode = sums(wire.values.node);
    this.valueGrad = sums(wire.values.grad_fn);
    this.firstOutput = new Int32Array(this.size).fill(0);
    this.outputs = new Int32Array(this.size);
    for (let value = wire.values.node.length - 1; value >= 0; value--) {
      if (wire.values.output[value]! < 0) continue; // a later version of a value, seen through an alias
      const node = this.valueNode[value]!;
      this.firstOutput[node] = value;
      this.outputs[node]!++;
    }
    this.inputValue = new Int32Array(nodes.input_value.length);
    for (let node = 0; node < this.size; node++) {
      for (let k = this.firstInput[node]!; k < this.firstInput[node + 1]!; k++) {
        this.inputValue[k] = this.firstOutput[node]! - nodes.input_value[k]!;
      }
    }
    this.savedStart = starts(nodes.saved);
    this.gradNode = sums(wire.grads.node);
    this.firstParent = starts(wire.grads.parents);
    this.regionParent = Int32Array.from(wire.regions.parent, (back, id) => (back === 0 ? -1 : id - back));
    this.regionSite = sums(wire.regions.site);
    this.decisionValue = sums(wire.decisions.value);
    this.decisionSite = sums(wire.decisions.site);
    this.decisionRegion = sums(wire.decisions.region);
    this.decisionAfter = sums(wire.decisions.after);
    this.types = wire.types.map(([dtype, shape, device, grad, leaf]) => ({
      dtype, shape, device, grad: grad === 1, leaf: leaf === 1,
    }));
    this.scopeById = new Map(wire.scopes.map(([id, path, module]) => [id, [path, module]]));
    this.foldOfNode = new Int32Array(this.size).fill(-1);
    this.foldOfDecision = new Int32Array(wire.decisions.how.length).fill(-1);
    this.readFolds();
    for (const [node, output, what, text] of wire.samples) {
      const known = this.samples.get(node) ?? [];
      known.push({ output, what, text });
      this.samples.set(node, known);
    }
  }

  private readFolds(): void {
    const fold = this.wire.fold;
    const begin = starts(fold.count);
    for (let id = 0; id < fold.kind.length; id++) {
      const members = sums(fold.members, begin[id], begin[id + 1]);
      const kind = FOLD_KINDS[fold.kind[id]!]!;
      this.folds.push({
        id, kind, label: this.text(fold.label[id]!), parent: fold.parent[id]!, site: fold.site[id]!,
        trips: fold.low[id]! < 0 ? null : [fold.low[id]!, fold.high[id]!], depth: fold.depth[id]!, members, children: [],
      });
      if (id > 0) this.folds[fold.parent[id]!]!.children.push(id);
      if (kind === "op" || kind === "input") for (const member of members) this.foldOfNode[member] = id;
      if (kind === "decision") for (const member of members) this.foldOfDecision[member] = id;
    }
  }

  text(index: number): string {
    return index < 0 ? "" : this.wire.text[index]!;
  }

  op(node: number): string {
    return this.text(this.wire.nodes.op[node]!);
  }

  isInput(node: number): boolean {
    return (this.wire.nodes.flags[node]! & 1) === 1;
  }

  /** A parameter or a buffer: named in the boxes that use it, drawn only when asked for. */
  isHeld(node: number): boolean {
    if (!this.isInput(node)) return false;
    const what = this.op(node);
    return what === "parameter" || what === "buffer";
  }

  cut(node: number): string {
    return this.text(this.wire.nodes.cut[node]!);
  }

  argumentsOf(node: number): string {
    return this.text(this.wire.nodes.arguments[node]!);
  }

  scope(node: number): [string, string] | null {
    return this.scopeById.get(this.wire.nodes.scope[node]!) ?? null;
  }

  inputs(node: number): Int32Array {
    return this.inputValue.subarray(this.firstInput[node]!, this.firstInput[node + 1]!);
  }

  position(node: number, index: number): string {
    return this.text(this.wire.nodes.input_position[this.firstInput[node]! + index]!);
  }

  saved(node: number): { name: string; value: number; bytes: number }[] {
    const found = [];
    const items = this.wire.nodes.saved_items;
    for (let k = this.savedStart[node]!; k < this.savedStart[node + 1]!; k++) {
      const [name, back, bytes, none] = [0, 1, 2, 3].map((part) => items[4 * k + part]!) as [number, number, number, number];
      found.push({ name: this.text(name), value: none === 2 ? -1 : this.firstOutput[node]! - back, bytes });
    }
    return found;
  }

  outputsOf(node: number): number[] {
    return Array.from({ length: this.outputs[node]! }, (_, k) => this.firstOutput[node]! + k);
  }

  type(value: number): ValueType {
    return this.types[this.wire.values.type[value]!]!;
  }

  typeText(value: number): string {
    const type = this.type(value);
    return `${type.dtype}[${type.shape.join(", ")}]`;
  }

  /** The name a value has in the program, or `$4`; as `value_name` in Python. */
  valueName(value: number): string {
    const name = this.text(this.wire.values.name[value]!);
    if (name !== "") return name;
    const node = this.valueNode[value]!;
    const output = this.wire.values.output[value]!;
    return output <= 0 && this.outputs[node]! < 2 ? `$${node}` : `$${node}.${Math.max(output, 0)}`;
  }

  /** Nodes whose values `node` uses, each once; an alias also lets flow what it was before. */
  sources(node: number): number[] {
    const found = new Set<number>();
    const { output, previous } = this.wire.values;
    for (let value of this.inputs(node)) {
      for (;;) {
        found.add(this.valueNode[value]!);
        if (output[value]! >= 0 || previous[value] === 0) break;
        value -= previous[value]!;
      }
    }
    found.delete(node);
    return [...found];
  }

  /** Nodes that use a value of `node`, in order. */
  users(node: number): Int32Array {
    if (this.userStart === null || this.userList === null) {
      const counts = new Int32Array(this.size);
      const pairs: number[] = [];
      for (let user = 0; user < this.size; user++) {
        for (const source of this.sources(user)) {
          counts[source]!++;
          pairs.push(source, user);
        }
      }
      this.userStart = starts(counts);
      this.userList = new Int32Array(pairs.length / 2);
      const next = this.userStart.slice();
      for (let k = 0; k < pairs.length; k += 2) this.userList[next[pairs[k]!]!++] = pairs[k + 1]!;
    }
    return this.userList.subarray(this.userStart[node]!, this.userStart[node + 1]!);
  }

  /** Everything that flows into these nodes, or out of them; without themselves. */
  closure(begin: Iterable<number>, direction: "ancestors" | "descendants"): Uint8Array {
    const seen = new Uint8Array(this.size);
    const stack = [...begin];
    const first = new Set(stack);
    while (stack.length > 0) {
      const node = stack.pop()!;
      for (const next of direction === "ancestors" ? this.sources(node) : this.users(node)) {
        if (seen[next] === 0) {
          seen[next] = 1;
          stack.push(next);
        }
      }
    }
    for (const node of first) seen[node] = 0;
    return seen;
  }

  /** The regions around a region, itself first. */
  regionsAround(region: number): number[] {
    const found = [];
    while (region >= 0) {
      found.push(region);
      region = this.regionParent[region]!;
    }
    return found;
  }

  /** The folds around a fold, itself first, without the root. */
  foldsAround(fold: number): number[] {
    const found = [];
    while (fold > 0) {
      found.push(fold);
      fold = this.folds[fold]!.parent;
    }
    return found;
  }
}
