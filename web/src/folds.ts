/** Which folds and rounds of a graph are in sight. */

import type { Graph } from "./graph";

/** Which regions are shown when some loops show a single round. */
export function shownRegions(graph: Graph, rounds: ReadonlyMap<number, number>): Uint8Array | null {
  if (rounds.size === 0) return null;
  const { kind, index } = graph.wire.regions;
  const round = new Map<number, number>();
  for (const [fold, chosen] of rounds) {
    for (const member of graph.folds[fold]?.members ?? []) round.set(member, chosen);
  }
  const shown = new Uint8Array(kind.length);
  for (let id = 0; id < kind.length; id++) {
    const parent = graph.regionParent[id]!;
    const wanted = kind[id] === 2 ? round.get(parent) : undefined;
    shown[id] = (parent < 0 || shown[parent] === 1) && (wanted === undefined || index[id] === wanted) ? 1 : 0;
  }
  return shown;
}

/** How many members of each fold are in the rounds that are shown. */
export function countShown(graph: Graph, shown: Uint8Array | null): Int32Array {
  if (shown === null) return Int32Array.from(graph.folds, (fold) => fold.members.length);
  return Int32Array.from(graph.folds, ({ kind, members }) => {
    let count = 0;
    for (const member of members) {
      const region =
        kind === "op" ? graph.region[member]! :
        kind === "decision" ? graph.decisionRegion[member]! :
        kind === "frame" || kind === "loop" || kind === "again" ? member : -1;
      if (region < 0 || shown[region] === 1) count++;
    }
    return count;
  });
}

/** The folds to begin with: functions and single rounds around everything say nothing about the step. */
export function outermost(graph: Graph): { folds: number[]; around: number[] } {
  const around: number[] = [];
  let inside = graph.folds[0]?.children ?? [];
  for (;;) {
    // What comes in, and a mode that was switched on the way (the end of a `no_grad` of the step before), is no work.
    const rest = inside.filter((child) => graph.folds[child]!.kind !== "input" && graph.folds[child]!.kind !== "mode");
    const only = graph.folds[rest[0] ?? -1];
    if (rest.length !== 1 || only === undefined) return { folds: inside, around };
    const single = only.kind === "loop" && only.trips !== null && only.trips[1] === 1;
    if (!(only.kind === "frame" && only.depth === 1) && !single) return { folds: inside, around };
    around.push(only.id);
    inside = [...inside.filter((child) => child !== only.id), ...only.children];
  }
}

/** What is open at first: outer groups before inner ones, while the picture stays readable. */
export function firstOpen(graph: Graph, most = 46): Set<string> {
  const open = new Set<string>();
  const { folds } = outermost(graph);
  let shown = folds.filter((each) => graph.folds[each]!.kind !== "input").length;
  const queue = [...folds];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const fold = graph.folds[next]!;
    if (fold.kind !== "frame" && fold.kind !== "loop") continue;
    if (shown + fold.children.length > most) continue;
    shown += fold.children.length;
    open.add(`f${next}`);
    queue.push(...fold.children);
  }
  return open;
}

/** The rounds in which a node ran, for every loop around it. */
export function roundsOf(graph: Graph, node: number): Map<number, number> {
  const rounds = new Map<number, number>();
  const around = graph.regionsAround(graph.region[node]!);
  const { kind, index } = graph.wire.regions;
  const loops = new Map<number, number>();
  for (const fold of graph.folds) if (fold.kind === "loop") for (const member of fold.members) loops.set(member, fold.id);
  around.forEach((region, k) => {
    const loop = around[k + 1];
    if (kind[region] === 2 && loop !== undefined && loops.has(loop)) {
      const fold = graph.folds[loops.get(loop)!]!;
      if (fold.trips === null || fold.trips[1] > 1) rounds.set(fold.id, index[region]!);
    }
  });
  return rounds;
}
