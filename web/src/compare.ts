/** Compares two graphs: the first thing that happened differently, and every place of the program with its counts. */

import type { Graph } from "./graph";
import type { Reading } from "./scene";
import type { Sites } from "./site";
import { number } from "./words";

export interface Happening {
  key: string;
  site: number;
  node: number;
  text: string;
}

export interface Divergence {
  sentence: string;
  here: Happening | null;
  there: Happening | null;
}

/** Operations, decisions and passes in the order in which they happened. */
export function* happenings(graph: Graph, reads: readonly (Reading | null)[], sites: Sites): Generator<Happening> {
  const decisions = graph.wire.decisions;
  let next = 0;
  for (let node = 0; node <= graph.size; node++) {
    while (next < decisions.how.length && graph.decisionAfter[next]! <= node) {
      const outcome = decisions.outcome[next]!;
      const read = reads[next];
      const how = graph.text(decisions.how[next]!);
      const site = graph.decisionSite[next]!;
      const expression = sites.get(site)?.expression || how;
      const fell = outcome < 0 ? number(read?.value ?? null) : outcome === 1 ? "True" : "False";
      const sides = read != null && read.left !== null && read.right !== null ? ` (${number(read.left)} ${graph.text(decisions.comparison[next]!) || "?"} ${number(read.right)})` : "";
      yield { key: `d:${site}:${how}:${outcome}`, site, node: graph.valueNode[graph.decisionValue[next]!]!, text: `${expression} is ${fell}${sides}` };
      next++;
    }
    if (node === graph.size || graph.isInput(node)) continue;
    const site = graph.site[node]!;
    yield { key: `o:${site}:${graph.op(node)}`, site, node, text: `${graph.op(node)} at ${sites.where(site) || "an unknown line"}` };
  }
}

export function divergence(a: Graph, b: Graph, readsA: readonly (Reading | null)[], readsB: readonly (Reading | null)[], sites: Sites): Divergence | null {
  const one = happenings(a, readsA, sites);
  const two = happenings(b, readsB, sites);
  let last: Happening | null = null;
  for (;;) {
    const x = one.next();
    const y = two.next();
    if (x.done === true && y.done === true) return null;
    const here = x.done === true ? null : x.value;
    const there = y.done === true ? null : y.value;
    if (here !== null && there !== null && here.key === there.key) {
      last = here;
      continue;
    }
    return { here, there, sentence: sentence(here, there, last, sites) };
  }
}

function sentence(here: Happening | null, there: Happening | null, last: Happening | null, sites: Sites): string {
  const where = (each: Happening): string => sites.where(each.site);
  if (here !== null && there !== null && here.key.startsWith("d:") && here.site === there.site) {
    return `The decision in ${where(here)} fell differently: here ${here.text}, there ${there.text}.`;
  }
  const loop = last === null ? undefined : sites.get(last.site);
  const inLoop = (each: Happening | null): boolean => each !== null && loop != null && sites.get(each.site)?.function === loop.function && (sites.get(each.site)?.line ?? 0) <= loop.line;
  if (last !== null && inLoop(here) !== inLoop(there)) {
    return inLoop(here) ? `After ${where(last)} the loop goes on here and ends there.` : `After ${where(last)} the loop ends here and goes on there.`;
  }
  return `Up to ${last === null ? "their beginning" : where(last)} they are alike; then ${here === null ? "one ends" : `here runs ${here.text}`}, ${there === null ? "the other ends" : `there ${there.text}`}.`;
}

export interface PlaceCounts {
  site: number;
  name: string;
  counts: [number, number];
  types: [string, string];
}

/** Every operation by its place: how often it ran in each of the two, and on which sizes. */
export function placesOf(a: Graph, b: Graph, sites: Sites): PlaceCounts[] {
  const found = new Map<string, PlaceCounts>();
  [a, b].forEach((graph, side) => {
    for (const fold of graph.folds) {
      if (fold.kind !== "op" && fold.kind !== "decision") continue;
      const name = fold.kind === "decision" ? `◇ ${sites.get(fold.site)?.expression || fold.label}` : fold.label;
      const key = `${fold.kind}:${fold.site}:${name}`;
      const place = found.get(key) ?? { site: fold.site, name, counts: [0, 0], types: ["", ""] };
      place.counts[side as 0 | 1] += fold.members.length;
      const value = fold.kind === "op" ? graph.outputsOf(fold.members[0]!)[0] : undefined;
      if (value !== undefined && place.types[side as 0 | 1] === "") place.types[side as 0 | 1] = graph.typeText(value);
      found.set(key, place);
    }
  });
  return [...found.values()].sort((x, y) => order(sites, x.site) - order(sites, y.site));
}

function order(sites: Sites, id: number): number {
  const site = sites.get(id);
  return site === null ? Infinity : site.file * 1e7 + site.line * 100 + Math.max(site.column, 0);
}
