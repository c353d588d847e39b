/** Which way the decisions of a step went, in the rounds that are shown. */

import type { Graph } from "./graph";
import type { Words } from "./labels";
import type { Site, Sites } from "./site";

/** Whether the program acted on the value, or only took it. */
export function decides(graph: Graph, sites: Sites, fold: number): boolean {
  const { kind, members, site } = graph.folds[fold]!;
  return kind === "decision" && (graph.wire.decisions.outcome[members[0]!]! >= 0 || sites.get(site)?.test != null);
}

/** For False and True: the first fold behind the decision that stands in that arm; -1 if none ran. */
export function armStarts(graph: Graph, sites: Sites, fold: number): [number, number] {
  const found: [number, number] = [-1, -1];
  const decision = graph.folds[fold]!;
  const site = sites.get(decision.site);
  if (site?.test == null) return found;
  const [, line, column] = site.test;
  const siblings = graph.folds[decision.parent]?.children ?? [];
  for (const each of siblings) {
    const here = sites.get(graph.folds[each]!.site);
    if (here === null || here.file !== site.file) continue;
    for (const branch of here.branches) {
      if (branch[0] === line && branch[1] === column && found[branch[2] as 0 | 1] < 0) found[branch[2] as 0 | 1] = each;
    }
  }
  return found;
}

/** `y.item() > 1.5`: a whole test that compares what was read with a number of the source; null if it is another. */
export function comparison(site: Site | null): ((value: number) => boolean) | null {
  if (site?.test == null || site.test[4] !== "part") return null;
  const found = /^(.+?)\s*(<=|>=|==|!=|<|>)\s*(.+)$/.exec(site.test[3].trim());
  if (found === null) return null;
  const [, left, sign, right] = found as unknown as [string, string, string, string];
  const plain = (text: string): number => (/^-?\d[\d_]*\.?\d*(e[+-]?\d+)?$/i.test(text) ? Number(text.replaceAll("_", "")) : NaN);
  const compare: Record<string, (a: number, b: number) => boolean> = {
    "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "==": (a, b) => a === b,
    "!=": (a, b) => a !== b,
  };
  if (left === site.expression && !Number.isNaN(plain(right))) return (value) => compare[sign]!(value, plain(right));
  if (right === site.expression && !Number.isNaN(plain(left))) return (value) => compare[sign]!(plain(left), value);
  return null;
}

/** How often the test behind a decision fell False and True in the rounds that are shown. */
export function outcomesOf(maker: Words, fold: number): [number, number] {
  const { graph, options } = maker;
  const counts: [number, number] = [0, 0];
  const site = maker.sites.get(graph.folds[fold]!.site);
  let unknown = 0;
  for (const member of graph.folds[fold]!.members) {
    if (maker.shown !== null && graph.decisionRegion[member]! >= 0 && maker.shown[graph.decisionRegion[member]!] === 0) continue;
    let outcome: number = graph.wire.decisions.outcome[member]!;
    if (outcome < 0) {
      const value = options.reads[member]?.value;
      outcome = typeof value === "boolean" ? Number(value) : -1;
    }
    if (outcome >= 0) counts[(site?.test?.[4] === "negated" ? 1 - outcome : outcome) as 0 | 1]++;
    else unknown++;
  }
  const holds = comparison(site);
  if (holds !== null && unknown > 0) {
    for (const member of graph.folds[fold]!.members) {
      if (maker.shown !== null && graph.decisionRegion[member]! >= 0 && maker.shown[graph.decisionRegion[member]!] === 0) continue;
      const value = options.reads[member]?.value;
      if (typeof value !== "number") continue;
      counts[Number(holds(value)) as 0 | 1]++;
      unknown--;
    }
    return counts;
  }
  if (unknown > 0 || site?.test?.[4] === "part") {
    // A number was read, the program compared it: what ran next tells which way it went.
    const starts = armStarts(graph, maker.sites, fold);
    const ran = starts.map((each) => (each < 0 ? 0 : maker.counts[each]!)) as [number, number];
    const total = unknown + counts[0] + counts[1];
    if (ran[0] + ran[1] > 0) {
      counts[0] = starts[0] < 0 ? Math.max(total - ran[1], 0) : ran[0];
      counts[1] = starts[1] < 0 ? Math.max(total - ran[0], 0) : ran[1];
    }
  }
  return counts;
}
