/** Reads the wire `plait.page` back (see `views/_wire.py`): columns of differences become typed arrays. */

export const WIRE = "plait.page";
export const WIRE_VERSION = 1;

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

export interface GraphWire {
  nodes: {
    op: number[]; site: number[]; scope: number[]; region: number[]; arguments: number[]; cut: number[];
    flags: number[]; inputs: number[]; input_value: number[]; input_position: number[]; saved: number[];
    saved_items: number[]; kept: number[]; writes: [number, number][];
  };
  values: {
    node: number[]; output: number[]; type: number[]; name: number[]; base: number[]; previous: number[];
    version: number[]; grad_fn: number[];
  };
  grads: { name: number[]; node: number[]; leaf: number[]; parents: number[]; parent: number[]; parent_input: number[] };
  decisions: {
    how: number[]; value: number[]; after: number[]; site: number[]; region: number[]; outcome: number[];
    comparison: number[];
  };
  backwards: [number, string, number[], number[], number, number, number][];
  modes: [number, string, number, number][];
  events: [number, string, string, number][];
  regions: {
    parent: number[]; kind: number[]; label: number[]; site: number[]; line: number[]; index: number[]; trips: number[];
  };
  fold: {
    kind: number[]; label: number[]; parent: number[]; site: number[]; low: number[]; high: number[]; depth: number[];
    count: number[]; members: number[];
  };
  scopes: [number, string, string][];
  durations: number[] | null;
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

/** Running sums: undoes `differences`. */
export function sums(differences: readonly number[]): Int32Array {
  const found = new Int32Array(differences.length);
  let last = 0;
  for (let i = 0; i < differences.length; i++) found[i] = last += differences[i]!;
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

/** A packed chunk (base64 of zlib of JSON) as the document it holds. */
export async function unpack<T>(text: string): Promise<T> {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text()) as T;
}
