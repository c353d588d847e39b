/** Reads the wire `plait.page` back (see `views/_wire.py`): columns of differences become typed arrays. */

export const WIRE = "plait.page";
export const WIRE_VERSION = 2;

export type FoldKind =
  | "step" | "frame" | "loop" | "again" | "op" | "input" | "decision" | "backward" | "mode" | "event";
export const FOLD_KINDS: readonly FoldKind[] = [
  "step", "frame", "loop", "again", "op", "input", "decision", "backward", "mode", "event",
];
export type MaybeNumber = number | string | null;

export interface HeadWire {
  format: string;
  version: number;
  plait: string;
  serve: boolean;
  start: number | null;
  meta: Record<string, string>;
  notes: [string, string][];
  summary: [string, string][];
  files: FileWire[];
  sites: SitesWire;
  steps: StepsWire;
  /** graph, program, steps, first step, nodes, operations, decisions, saved bytes */
  variants: [number, number, number, number, number, number, number, number][];
  programs: ProgramWire[];
  places: PlaceWire[];
  /** kind, text, file, line */
  findings: [string, string, number, number][];
  /** file, line, header, trips, around the steps */
  loops: [number, number, string, number[], boolean][];
  batches: BatchWire[];
  contrast: ContrastWire | null;
  graphs: number[] | null;
  reads_per_chunk: number;
}

/** A call of a function of plait.batch, in numbers. */
export interface BatchWire {
  id: number; step: number; site: number; examples: number; calls: number; groups: number; flushes: number; ns: number;
  loop: string | null; hint: string | null;
  /** site, times */
  reads: [number, number][];
  /** name, why, times */
  alone: [string, string, number][];
  /** Whether its groups were kept. */
  detail: boolean;
}

/** The groups of one batched run, in order. */
export interface GroupsWire {
  name: number[]; names: string[]; flush: number[]; width: number[]; ns: number[]; examples: number[][];
  /** site, calls */
  places: [number, number][][];
  /** id, site, waiting */
  flushes: [number, number, number][];
}

/** A comparison with other runs, which Python made. */
export interface ContrastWire {
  text: string[];
  sides: {
    label: string; text: string; step: number | null; source: string | null;
    site: { name: string; file: number; line: number; end_line: number; column: number; end_column: number; expression: string } | null;
  }[];
  lists: [string, string[]][];
}

export interface FileWire {
  name: string;
  path: string;
  text: string | null;
  /** line, runs, ops, ns, saved bytes, marks */
  lines: [number, number, number, number, number, [string, string][]][];
}

export type TestWire = [
  string, number, number, string, string, number | null, string | null, number | null, string | null,
];

export interface SitesWire {
  id: number[];
  file: number[];
  line: number[];
  end_line: number[];
  column: number[];
  end_column: number[];
  function: number[];
  expression: number[];
  target: number[];
  branches: [number, number, number][][];
  test: (TestWire | null)[];
  text: string[];
}

export interface StepsWire {
  graph: number[];
  kind: number[];
  kinds: string[];
  ns: number[];
  operations_ns: number[];
  loss: MaybeNumber[];
  grad_norm: MaybeNumber[];
  saved: number[];
  incomplete: number[];
}

export interface ProgramWire {
  number: number;
  kind: string;
  steps: number;
  graphs: number;
  operations: string;
  decisions: string;
  saved: string;
  sizes: string;
  rows: [number, string, string, [string, number, string, string, number | null] | null][];
}

export interface PlaceWire {
  site: number;
  how: string;
  comparison: string | null;
  predicate: string;
  count: number;
  text: string;
  arms: [number, number, number | null, string | null][];
  numbers: [string, string, string] | null;
  closest: string | null;
  closest_step: number | null;
  first_step: number | null;
  decides: boolean;
  sampled: boolean;
  spark: (number | null)[] | null;
}

/** Whole numbers: a list in a fixture, a typed array in a page. */
export type Column = ArrayLike<number>;

export interface GraphWire {
  nodes: {
    op: Column; site: Column; scope: Column; region: Column; arguments: Column; cut: Column;
    flags: Column; inputs: Column; input_value: Column; input_position: Column; saved: Column;
    saved_items: Column; kept: Column; writes: [number, number][];
  };
  values: {
    node: Column; output: Column; type: Column; name: Column; base: Column; previous: Column;
    version: Column; grad_fn: Column;
  };
  grads: { name: Column; node: Column; leaf: Column; parents: Column; parent: Column; parent_input: Column };
  decisions: {
    how: Column; value: Column; after: Column; site: Column; region: Column; outcome: Column;
    comparison: Column;
  };
  backwards: [number, string, number[], number[], number, number, number][];
  modes: [number, string, number, number][];
  events: [number, string, string, number][];
  regions: {
    parent: Column; kind: Column; label: Column; site: Column; line: Column; index: Column; trips: Column;
  };
  fold: {
    kind: Column; label: Column; parent: Column; site: Column; low: Column; high: Column; depth: Column;
    count: Column; members: Column;
  };
  scopes: [number, string, string][];
  durations: Column | null;
  samples: [number, number, "value" | "gradient", string][];
  types: [string, number[], string, number, number][];
  text: string[];
}

export interface StatsWire {
  grad: number[];
  node: number[];
  in: MaybeNumber[];
  out: MaybeNumber[];
  born: number[];
}

/** Running sums of a stretch: undoes `differences`. */
export function sums(differences: Column, begin = 0, end = differences.length): Int32Array {
  const found = new Int32Array(end - begin);
  let last = 0;
  for (let i = 0; i < found.length; i++) found[i] = last += differences[begin + i]!;
  return found;
}

/** Where each of several stretches of these lengths begins, and where the last one ends. */
export function starts(lengths: ArrayLike<number>): Int32Array {
  const found = new Int32Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i++) found[i + 1] = found[i]! + lengths[i]!;
  return found;
}

/** A number of the wire: words stand for those that JSON does not know. */
export function real(value: MaybeNumber | undefined): number | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "number") return value;
  return value === "inf" ? Infinity : value === "-inf" ? -Infinity : NaN;
}

/** A chunk (see `views/_pack.py`) as the document it holds, its columns as typed arrays. */
export async function unpack<T>(text: string): Promise<T> {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = await new Response(stream).arrayBuffer();
  const end = 4 + new DataView(data).getUint32(0, true);
  const written = new TextDecoder().decode(new Uint8Array(data, 4, end - 4));
  return (data.byteLength === end ? JSON.parse(written) : JSON.parse(written, (_, item) => column(item, data, end))) as T;
}

const COLUMNS = { b: Int8Array, h: Int16Array, i: Int32Array, d: Float64Array };

function column(item: unknown, data: ArrayBuffer, end: number): unknown {
  if (item === null || typeof item !== "object" || !Object.hasOwn(item, "at")) return item;
  const { type, at, count } = item as { type: keyof typeof COLUMNS; at: number; count: number };
  const begin = end + at;
  // A copy: a typed array may begin only at a multiple of its own width.
  return new COLUMNS[type](data.slice(begin, begin + count * COLUMNS[type].BYTES_PER_ELEMENT));
}
