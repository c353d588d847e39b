/** Overlays: a number for each fold, and the ten classes of heat that draw it. */

import type { Graph } from "./graph";
import { real, type StatsWire } from "./wire";
import { duration, number, size } from "./words";
import type { Overlay } from "./state";

export interface Heat {
  /** Fold -> 0 (cold) to 9 (hot); without an entry: nothing known. */
  level: Map<number, number>;
  words: Map<number, string>;
  /** Folds in which something not finite first appeared in the backward pass. */
  born: Set<number>;
  legend: string;
}

export function heatOf(graph: Graph, overlay: Overlay, stats: StatsWire | null, reached: Uint8Array): Heat | null {
  if (overlay === "none") return null;
  if (overlay === "gradient") return gradientHeat(graph, stats, reached);
  const durations = graph.wire.durations;
  if (overlay === "time" && durations === null) {
    return { level: new Map(), words: new Map(), born: new Set(), legend: "times of single operations were not kept for this graph" };
  }
  const totals = new Map<number, number>();
  for (const fold of graph.folds) {
    if (fold.kind !== "op") continue;
    let sum = 0;
    for (const member of fold.members) sum += overlay === "time" ? (durations![member] ?? 0) : graph.wire.nodes.kept[member]!;
    if (sum > 0) totals.set(fold.id, sum);
  }
  const groups = rolledUp(graph, totals);
  const most = Math.max(...totals.values(), 1);
  const level = new Map([...groups].map(([fold, sum]) => [fold, scaled(sum, most)]));
  const words = new Map([...groups].map(([fold, sum]) => [fold, overlay === "time" ? duration(sum) : size(sum)]));
  const legend = overlay === "time" ? "time in operations, in the first step that built this graph" : "bytes kept for backward (inputs, parameters and shared storage aside)";
  return { level, words, born: new Set(), legend };
}

function rolledUp(graph: Graph, totals: ReadonlyMap<number, number>): Map<number, number> {
  const found = new Map(totals);
  for (const [fold, sum] of totals) {
    for (const around of graph.foldsAround(fold).slice(1)) found.set(around, (found.get(around) ?? 0) + sum);
  }
  return found;
}

const scaled = (value: number, most: number): number => Math.min(9, Math.floor((9.999 * Math.sqrt(value)) / Math.sqrt(Math.max(most, value))));

function gradientHeat(graph: Graph, stats: StatsWire | null, reached: Uint8Array): Heat {
  const heat: Heat = { level: new Map(), words: new Map(), born: new Set(), legend: "" };
  if (stats === null) {
    // Without measured norms: only whether a gradient comes by.
    for (const fold of graph.folds) {
      if (fold.kind !== "op" && fold.kind !== "input") continue;
      let some = false;
      for (const member of fold.members) some ||= reached[member] === 1;
      if (some) {
        for (const each of graph.foldsAround(fold.id)) heat.level.set(each, 4);
        heat.words.set(fold.id, "gradient passes");
      }
    }
    heat.legend = "coloured: reached by the gradient; norms need plait run --values stats";
    return heat;
  }
  const norms = normsByFold(graph, stats);
  let low = Infinity;
  let high = 0;
  for (const norm of norms.values()) {
    if (norm > 0 && Number.isFinite(norm)) {
      low = Math.min(low, norm);
      high = Math.max(high, norm);
    }
  }
  const width = Math.log(high / low) || 1;
  for (const [fold, norm] of norms) {
    heat.words.set(fold, `|∂| ${number(norm)}`);
    heat.level.set(fold, Number.isFinite(norm) && norm > 0 ? Math.round((9 * Math.log(norm / low)) / width) : norm === 0 ? 0 : 9);
  }
  for (const place of stats.born) heat.born.add(graph.foldOfNode[stats.node[place]!]!);
  heat.legend = Number.isFinite(low) ? `gradient norms ${number(low)} to ${number(high)}` : "no gradient norm was measured";
  return heat;
}

/** The largest norm that came into the backward nodes of each fold. */
function normsByFold(graph: Graph, stats: StatsWire): Map<number, number> {
  const found = new Map<number, number>();
  stats.node.forEach((node, k) => {
    const norm = real(stats.in[k]);
    const fold = graph.foldOfNode[node] ?? -1;
    if (norm === null || fold < 0) return;
    const before = found.get(fold);
    if (before === undefined || Number.isNaN(norm) || norm > before) found.set(fold, norm);
  });
  return found;
}

/** Norms of one fold over the rounds of its loop, in the order of the rounds: how a gradient vanishes. */
export function normCurve(graph: Graph, stats: StatsWire, fold: number): number[] {
  const byNode = new Map<number, number>();
  stats.node.forEach((node, k) => {
    const norm = real(stats.in[k]);
    if (norm !== null && graph.foldOfNode[node] === fold) byNode.set(node, Math.max(byNode.get(node) ?? 0, norm));
  });
  return [...byNode].sort((a, b) => a[0] - b[0]).map(([, norm]) => norm);
}
