/** What stands in a box: a few short lines that fit. */

import type { BoxKind, SceneOptions } from "./scene";
import { decides, outcomesOf } from "./outcomes";
import type { Fold, Graph } from "./graph";
import type { Sites } from "./site";
import { grouped, number, plural, shorten, span } from "./words";

export const WIDE = 34; // letters of a line in a box,
const HEADER = 48; // and of the only one of an open group, which is wide by its content
export const BATCH = "BatchNode"; // the operation that holds all of a run of plait.batch

/** What the words of a box are made from; the scene's maker is one. */
export interface Words {
  graph: Graph;
  sites: Sites;
  options: SceneOptions;
  shown: Uint8Array | null;
  counts: Int32Array;
  small: boolean;
}

export interface Label {
  kind: BoxKind;
  lines: string[];
  badge: string;
  grad: boolean;
  cut: string;
}

const plain = (kind: BoxKind, lines: string[], badge = "", wide = WIDE): Label => ({
  kind, lines: lines.filter((line) => line !== "").map((line) => shorten(line, wide)), badge, grad: false, cut: "",
});

export function boxLines(words: Words, number_: number, open: boolean): Label {
  const fold = words.graph.folds[number_]!;
  switch (fold.kind) {
    case "frame":
      return plain("group", [fold.label, ...(open ? [] : digest(words, fold))], groupBadge(words, fold), open ? HEADER : WIDE);
    case "loop":
      return plain("loop", [`↻ ${fold.label}`, ...(open ? [] : digest(words, fold))], loopBadge(words, fold), open ? HEADER : WIDE);
    case "again":
      return plain("again", [`↺ ${fold.label} again`], `${grouped(fold.members.length)}x`);
    case "op":
    case "input":
      return opLabel(words, fold);
    case "decision":
      return decisionLabel(words, fold);
    case "backward": {
      const pass = words.graph.wire.backwards[fold.members[0]!]!;
      const roots = pass[2].map((root) => words.graph.valueName(root)).join(", ");
      return plain("backward", [`← ${pass[1]}`, `from ${roots || "?"}`], times(fold.members.length));
    }
    case "mode": {
      const mode = words.graph.wire.modes[fold.members[0]!]!;
      return plain("mode", [`${mode[1]} ${mode[2] === 1 ? "on" : "off"}`], times(fold.members.length));
    }
    case "event": {
      const event = words.graph.wire.events[fold.members[0]!]!;
      return plain("event", [`${EVENTS[event[1]] ?? event[1]} ${event[2]}`.trim()], times(fold.members.length));
    }
    default:
      return plain("group", [fold.label]);
  }
}

const EVENTS: Record<string, string> = { optimizer: "optimizer step", zero_grad: "zero_grad", clip: "clip gradients" };

const times = (count: number): string => (count > 1 ? `${grouped(count)}x` : "");

function groupBadge(words: Words, fold: Fold): string {
  const deep = fold.depth > 1 ? `${fold.depth} deep` : "";
  const count = words.counts[fold.id]!;
  return [count > 1 ? `${grouped(count)}x` : "", deep].filter(Boolean).join(", ");
}

function loopBadge(words: Words, fold: Fold): string {
  const round = words.options.rounds.get(fold.id);
  if (round !== undefined) return `round ${round + 1}`;
  return fold.trips === null ? "rounds unknown" : `x ${span(...fold.trips)}`;
}

/** The content of a closed group in a line or two: how much, and its first operations. */
function digest(words: Words, fold: Fold): string[] {
  let ops = 0;
  let decisions = 0;
  const names: string[] = [];
  const stack = [...fold.children].reverse();
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const inside = words.graph.folds[next]!;
    if (inside.kind === "op") {
      ops += words.counts[next]!;
      if (names.length < 5 && names[names.length - 1] !== inside.label) names.push(inside.label);
    } else if (decides(words.graph, words.sites, next)) decisions += words.counts[next]!;
    for (let k = inside.children.length - 1; k >= 0; k--) stack.push(inside.children[k]!);
  }
  const many = [plural(ops, "op"), decisions > 0 ? plural(decisions, "decision") : ""].filter(Boolean).join(", ");
  return [many, names.join(" → ")];
}

function opLabel(words: Words, fold: Fold): Label {
  const { graph } = words;
  const node = firstShown(words, fold);
  const outputs = graph.outputsOf(node);
  const first = outputs[0];
  const name = first === undefined ? "" : graph.text(graph.wire.values.name[first]!);
  const op = graph.op(node);
  const lines: string[] = [];
  if (fold.kind === "input") {
    lines.push(first === undefined ? op : graph.valueName(first), `${op}${first === undefined ? "" : ` ${laidOver(words, fold, 0)}`}`);
  } else {
    const batch = op === BATCH ? words.options.batches.get(graph.site[node]!) : undefined;
    const what = batch === undefined ? op : "batched run";
    lines.push(name === "" ? what : `${name} = ${what}`);
    if (batch !== undefined) lines.push(`${plural(batch.examples, "example")} in ${plural(batch.groups, "group")}`);
    if (first !== undefined) {
      lines.push(laidOver(words, fold, 0) + (outputs.length > 1 ? ` and ${outputs.length - 1} more` : ""));
    }
    const held = words.small || words.options.held ? [] : heldNames(graph, node);
    if (held.length > 0) lines.push(shorten(commonStart(held), WIDE));
    else if (graph.argumentsOf(node) !== "" && graph.argumentsOf(node).length < WIDE - 1) lines.push(`(${graph.argumentsOf(node)})`);
  }
  for (const sample of graph.samples.get(node) ?? []) {
    if (sample.output !== 0) continue;
    lines.push((sample.what === "value" ? `= ${sample.text}` : `grad ${sample.text}`) + words.options.from);
  }
  const cut = graph.cut(node);
  const label = plain(fold.kind === "input" ? "input" : "op", lines, times(words.counts[fold.id]!));
  label.grad = first !== undefined && graph.type(first).grad;
  label.cut = cut;
  return label;
}

function firstShown(words: Words, fold: Fold): number {
  if (words.shown !== null) {
    for (const member of fold.members) {
      const region = words.graph.region[member]!;
      if (region < 0 || words.shown[region] === 1) return member;
    }
  }
  return fold.members[0]!;
}

/** `f32[2..16, 32]`: the type of an output over all rounds that are shown. */
export function laidOver(words: Words, fold: Fold, place: number): string {
  const { graph, shown } = words;
  let low: number[] | null = null;
  let high: number[] = [];
  let dtype = "";
  for (const member of fold.members) {
    if (shown !== null && graph.region[member]! >= 0 && shown[graph.region[member]!] === 0) continue;
    if (graph.outputs[member]! <= place) continue;
    const type = graph.type(graph.firstOutput[member]! + place);
    if (low === null) {
      low = [...type.shape];
      high = [...type.shape];
      dtype = type.dtype;
    } else if (type.shape.length === low.length) {
      type.shape.forEach((extent, k) => {
        low![k] = Math.min(low![k]!, extent);
        high[k] = Math.max(high[k]!, extent);
      });
    }
  }
  if (low === null) {
    const value = graph.outputsOf(fold.members[0]!)[place];
    return value === undefined ? "" : graph.typeText(value);
  }
  return `${dtype}[${low.map((extent, k) => span(extent, high[k]!)).join(", ")}]`;
}

export function heldNames(graph: Graph, node: number): string[] {
  const names = [];
  for (const value of graph.inputs(node)) if (graph.isHeld(graph.valueNode[value]!)) names.push(graph.valueName(value));
  return names;
}

/** `cell.weight_ih, weight_hh, …`: names in one module without repeating it. */
export function commonStart(names: readonly string[]): string {
  const first = names[0] ?? "";
  const dot = first.lastIndexOf(".") + 1;
  const start = first.slice(0, dot);
  return names.map((name, k) => (k > 0 && dot > 0 && name.startsWith(start) ? name.slice(dot) : name)).join(", ");
}

function decisionLabel(words: Words, fold: Fold): Label {
  const { graph, options } = words;
  const site = words.sites.get(fold.site);
  const first = fold.members[0]!;
  const how = graph.text(graph.wire.decisions.how[first]!);
  const name = graph.valueName(graph.decisionValue[first]!);
  const expression = site?.test != null && site.test[4] !== "whole" ? site.test[3] : (site?.expression ?? "");
  const asked = expression || `${how} of ${name}`;
  const shown = [...fold.members].filter(
    (each) => words.shown === null || graph.decisionRegion[each]! < 0 || words.shown[graph.decisionRegion[each]!] === 1,
  );
  const readings = shown.map((each) => options.reads[each]).filter((each) => each != null);
  if (!decides(graph, words.sites, fold.id)) {
    const values = readings.map((each) => each.value).filter((each): each is number => typeof each === "number");
    const text = values.length === 0 ? how : values.length === 1 ? number(values[0]!) : `${number(Math.min(...values.slice(0, 5000)))} to ${number(Math.max(...values.slice(0, 5000)))}`;
    return plain("read", [asked, `${how}: ${text}`], times(words.counts[fold.id]!));
  }
  const [no, yes] = outcomesOf(words, fold.id);
  let outcome: string;
  if (shown.length === 1) {
    const read = readings[0];
    const fell = yes + no === 1 ? (yes === 1 ? "True" : "False") : number(read?.value ?? null);
    const symbol = graph.text(graph.wire.decisions.comparison[shown[0]!]!) || "?";
    const numbers = read == null ? "" :
      read.left !== null && read.right !== null ? ` (${number(read.left)} ${symbol} ${number(read.right)})` :
      typeof read.value === "number" ? ` (read ${number(read.value)})` : "";
    outcome = fell + numbers;
  } else {
    outcome = [[yes, "True"], [no, "False"]].filter(([count]) => (count as number) > 0)
      .map(([count, word]) => `${grouped(count as number)}x ${word}`).join(", ");
    if (outcome === "") outcome = `${grouped(shown.length)}x ${how}`;
  }
  return plain("decision", [asked, outcome], "");
}
