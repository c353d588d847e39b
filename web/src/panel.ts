/** The panel beside the picture: all that is known of what is chosen. */

import { sparkline } from "./chart";
import { h, replace, type Child } from "./dom";
import type { Fold } from "./graph";
import type { GraphView } from "./graphview";
import { normCurve } from "./heat";
import { countShown, shownRegions } from "./folds";
import { decides, outcomesOf } from "./outcomes";
import { BATCH } from "./labels";
import { snippet } from "./snippet";
import type { State } from "./state";
import { real } from "./wire";
import { duration, grouped, number, plural, size, span } from "./words";

export class Panel {
  readonly element = h("aside", { class: "panel", "aria-label": "details", tabindex: 0 });

  constructor(private readonly view: GraphView) {}

  /** The innermost loop around what is chosen that has more than one round. */
  loop(): Fold | null {
    return this.loops()[0] ?? null;
  }

  private loops(): Fold[] {
    const graph = this.view.shown?.graph;
    const state = this.view.app.state;
    if (graph === undefined) return [];
    const fold = state.node !== null ? graph.foldOfNode[state.node]! : state.box?.startsWith("f") === true ? Number(state.box.slice(1)) : -1;
    if (fold < 0 || fold >= graph.folds.length) return [];
    return graph.foldsAround(fold).map((each) => graph.folds[each]!).filter((each) => each.kind === "loop" && each.trips !== null && each.trips[1] > 1);
  }

  update(state: State): void {
    const shown = this.view.shown;
    if (shown === null) return;
    const { graph } = shown;
    const node = state.node !== null && state.node < graph.size ? state.node : null;
    const fold = node !== null ? graph.folds[graph.foldOfNode[node]!] : state.box?.startsWith("f") === true ? graph.folds[Number(state.box.slice(1))] : undefined;
    if (state.box?.startsWith("g") === true && node === null) replace(this.element, ...this.ghost(state.box));
    else if (fold === undefined) replace(this.element, ...this.overview());
    else replace(this.element, ...this.title(fold), ...this.sliders(state), ...this.body(fold, node, state));
  }

  // -- parts --------------------------------------------------------------------------------------------------

  private overview(): Child[] {
    const { app, shown } = this.view;
    const { steps } = app.store.head;
    const { graph, step, number: graphNumber } = shown!;
    // By place, of which there are few: a graph may have 100,000 nodes, and this is drawn with every picture.
    const count = (wanted: (fold: Fold) => boolean): number =>
      graph.folds.reduce((sum, fold) => sum + (wanted(fold) ? fold.members.length : 0), 0);
    const ops = count((fold) => fold.kind === "op");
    const all = graph.wire.decisions.how.length;
    const made = count((fold) => fold.kind === "decision" && decides(graph, app.store.sites, fold.id));
    const parts = [`${graphNumber}`, plural(ops, "op"), plural(graph.size - ops, "input"), plural(made, "decision")];
    if (all > made) parts.push(`${plural(all - made, "value")} only read`);
    const rows: [string, Child][] = [["graph", parts.join(", ")]];
    const loss = real(steps.loss[step]);
    if (loss !== null) rows.push(["loss", number(loss)]);
    const norm = real(steps.grad_norm[step]);
    if (norm !== null) rows.push(["gradient norm", number(norm)]);
    if (steps.saved[step]! > 0) rows.push(["kept for backward", size(steps.saved[step]!)]);
    rows.push(["time", `${duration(steps.ns[step]!)}, ${duration(steps.operations_ns[step]!)} in operations`]);
    if (steps.incomplete.includes(step)) rows.push(["", "cut off by the end of the run"]);
    const held = count((fold) => fold.kind === "input" && graph.isHeld(fold.members[0]!));
    if (held > 0 && !this.view.scene?.boxes.some((box) => box.kind === "input" && graph.isHeld(graph.folds[box.fold]!.members[0]!))) rows.push(["parameters", `${held}, named in the boxes that use them`]);
    return [
      h("h2", {}, `Step ${step}`), facts(rows),
      h("h3", {}, "How to read it"), legend(),
      h("p", { class: "hint" }, "Click a box for its details, click it again to open or fold it. Keys: arrows move, Enter opens, a and d light what flows in and out, [ and ] go through the rounds of a loop, / searches, + - 0 zoom."),
    ];
  }

  private title(fold: Fold): Child[] {
    const { graph } = this.view.shown!;
    const kind = { step: "step", frame: "function", loop: "loop", again: "recursion", op: "operation", input: "input", decision: "decision", backward: "backward pass", mode: "gradient mode", event: "event" }[fold.kind];
    const name = fold.kind === "op" || fold.kind === "input" ? graph.op(fold.members[0]!) : fold.kind === "decision" ? (this.view.app.store.sites.get(fold.site)?.expression || fold.label) : fold.label;
    const often = fold.members.length > 1 ? `, ${grouped(fold.members.length)}x in this step` : "";
    return [h("p", { class: "kind" }, kind + often), h("h2", {}, name)];
  }

  private sliders(state: State): Child[] {
    return this.loops().map((loop) => {
      const last = loop.trips![1] - 1;
      const round = state.rounds.get(loop.id);
      const words = h("output", {}, round === undefined ? `all ${span(...loop.trips!)} rounds laid over one another` : `round ${round + 1} of ${grouped(last + 1)}`);
      const range = h("input", {
        type: "range", min: 0, max: last + 1, value: round === undefined ? 0 : round + 1, "aria-label": `round of ${loop.label}`,
        oninput: () => (words.textContent = Number(range.value) === 0 ? `all ${span(...loop.trips!)} rounds` : `round ${range.value} of ${grouped(last + 1)}`),
        onchange: () => this.view.setRound(loop.id, Number(range.value) === 0 ? null : Number(range.value) - 1),
      });
      return h("div", { class: "rounds" }, h("div", { class: "loop-name" }, `↻ ${loop.label}`), range, words);
    });
  }

  private body(fold: Fold, node: number | null, state: State): Child[] {
    switch (fold.kind) {
      case "op":
      case "input":
        return this.operation(fold, node ?? fold.members[0]!, node !== null, state);
      case "decision":
        return this.decision(fold);
      case "backward":
        return this.backward(fold);
      default:
        return this.group(fold);
    }
  }

  private group(fold: Fold): Child[] {
    const { graph, step } = this.view.shown!;
    const from = this.view.app.store.numbersFrom(step);
    let ops = 0;
    let kept = 0;
    let ns = 0;
    let decisions = 0;
    const stack = [...fold.children];
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      const inside = graph.folds[next]!;
      stack.push(...inside.children);
      if (decides(graph, this.view.app.store.sites, next)) decisions += inside.members.length;
      if (inside.kind !== "op") continue;
      ops += inside.members.length;
      for (const member of inside.members) {
        kept += graph.wire.nodes.kept[member]!;
        ns += graph.wire.durations?.[member] ?? 0;
      }
    }
    const rows: [string, Child][] = [["inside", `${plural(ops, "op")}, ${plural(decisions, "decision")}`]];
    if (fold.trips !== null) rows.push(["rounds", span(...fold.trips)]);
    if (fold.depth > 1) rows.push(["calls itself", `${fold.depth} deep`]);
    if (kept > 0) rows.push(["kept for backward", size(kept)]);
    if (ns > 0) rows.push([`time${from}`, duration(ns)]);
    const open = this.view.open().has(`f${fold.id}`);
    const isGroup = fold.kind === "frame" || fold.kind === "loop";
    return [facts(rows), isGroup ? h("button", { onclick: () => this.view.toggle(`f${fold.id}`) }, open ? "fold it" : "open it") : null, ...this.source(fold.site)];
  }

  private operation(fold: Fold, node: number, single: boolean, state: State): Child[] {
    const { graph, step, stats } = this.view.shown!;
    const from = this.view.app.store.numbersFrom(step);
    const rows: [string, Child][] = [];
    rows.push(["node", h("span", {}, `$${node}`, !single && fold.members.length > 1 ? " (the first of them)" : "")]);
    for (const value of graph.outputsOf(node).slice(0, 4)) {
      const type = graph.type(value);
      rows.push(["makes", `${graph.valueName(value)}  ${graph.typeText(value)} on ${type.device}${type.grad ? ", asks for gradients" : ""}`]);
    }
    if (graph.outputs[node]! > 4) rows.push(["", `and ${graph.outputs[node]! - 4} more`]);
    graph.inputs(node).slice(0, 8).forEach((value, k) => {
      const from = graph.valueNode[value]!;
      rows.push([k === 0 ? "from" : "", h("span", {}, `${graph.position(node, k)}: `, this.nodeButton(from, graph.valueName(value)), ` ${graph.typeText(value)}`)]);
    });
    if (graph.inputs(node).length > 8) rows.push(["", `and ${grouped(graph.inputs(node).length - 8)} more`]);
    if (graph.argumentsOf(node) !== "") rows.push(["arguments", graph.argumentsOf(node)]);
    const batch = graph.op(node) === BATCH ? this.view.app.store.batchesOf(state.step).get(graph.site[node]!) : undefined;
    if (batch !== undefined) {
      rows.push(["batched run", h("button", { class: "link", onclick: () => this.view.app.go({ view: "batch", batch: batch.id, group: null }) },
        `${plural(batch.examples, "example")}, ${plural(batch.calls, "call")} in ${plural(batch.groups, "group")}`)]);
    }
    const users = graph.users(node);
    [...users.slice(0, 6)].forEach((user, k) => rows.push([k === 0 ? "used by" : "", this.nodeButton(user, `$${user} ${graph.op(user)}`)]));
    if (users.length > 6) rows.push(["", `and ${grouped(users.length - 6)} more`]);
    const scope = graph.scope(node);
    if (scope !== null) rows.push(["module", `${scope[0] || "(the model)"}: ${scope[1]}`]);
    for (const item of graph.saved(node)) rows.push(["keeps", `${item.name}, ${size(item.bytes)}${item.value >= 0 ? ` (${graph.valueName(item.value)})` : ""}`]);
    const writes = graph.wire.nodes.writes.filter(([writer]) => writer === node).map(([, value]) => graph.valueName(value));
    if (writes.length > 0) rows.push(["writes in place", writes.join(", ")]);
    const ns = graph.wire.durations?.[node];
    if (ns !== undefined && fold.kind === "op") rows.push([`time${from}`, duration(ns)]);
    if (graph.cut(node) !== "") rows.push(["cut", h("span", { class: "cut" }, graph.cut(node))]);
    for (const sample of graph.samples.get(node) ?? []) rows.push([(sample.what === "value" ? "elements" : "gradient") + from, h("code", {}, sample.text)]);
    if (stats !== null) {
      stats.node.forEach((each, k) => {
        if (each !== node) return;
        const into = real(stats.in[k]);
        const out = real(stats.out[k]);
        rows.push(["gradient norm", `in ${number(into)}, out ${number(out)}${stats.born.includes(k) ? "; not finite from here on" : ""}`]);
      });
    }
    const curve = stats === null ? [] : normCurve(graph, stats, fold.id);
    const reach = this.view.reach(state);
    return [
      facts(rows),
      h("div", { class: "buttons" },
        this.trail("ancestors", state), this.trail("descendants", state)),
      reach === null ? null : h("div", { class: `reach ${reach.reached === true ? "yes" : reach.reached === false ? "no" : ""}` },
        h("h3", {}, "Does gradient reach this?"), h("p", {}, reach.sentence),
        ...reach.stops.slice(0, 5).map((stop) => h("p", {}, "stops at ", this.nodeButton(stop.node, `$${stop.node} ${graph.op(stop.node)}`), ` ${this.where(graph.site[stop.node]!)}: ${stop.why}`)),
        reach.path.length > 1 ? h("p", {}, "on its way: ", ...thin(reach.path).flatMap((each, k) => [k === 0 ? "" : " ← ", each < 0 ? "…" : this.nodeButton(each, graph.op(each))])) : null),
      curve.length > 2 ? h("div", {}, h("h3", {}, "Gradient norm over the rounds"), sparkline(curve, 260, 60, true),
        h("p", { class: "hint" }, `first round ${number(curve[0]!)}, last ${number(curve[curve.length - 1]!)} (logarithmic)`)) : null,
      ...this.source(graph.site[node]!),
    ];
  }

  private decision(fold: Fold): Child[] {
    const { app, shown } = this.view;
    const { graph, reads } = shown!;
    const place = app.store.placeOfSite.get(fold.site);
    const first = fold.members[0]!;
    const rows: [string, Child][] = [];
    const value = graph.decisionValue[first]!;
    rows.push(["asked", h("span", {}, `${graph.text(graph.wire.decisions.how[first]!)} of `, this.nodeButton(graph.valueNode[value]!, graph.valueName(value)), ` ${graph.typeText(value)}`)]);
    const options = { open: new Set<string>(), rounds: app.state.rounds, held: false, read: false, reads, places: app.store.placeOfSite, batches: new Map(), from: "" };
    const shownNow = shownRegions(graph, app.state.rounds);
    const counts = countShown(graph, shownNow);
    const [no, yes] = outcomesOf({ graph, sites: app.store.sites, options, shown: shownNow, counts, small: false }, fold.id);
    if (yes + no > 0) rows.push(["in this step", [yes > 0 ? `${grouped(yes)}x True` : "", no > 0 ? `${grouped(no)}x False` : ""].filter(Boolean).join(", ")]);
    const numbers = [...fold.members].slice(0, 8).map((each) => reads[each]).filter((each) => each != null);
    for (const read of numbers.slice(0, 6)) {
      rows.push(["read", read.left !== null && read.right !== null ? `${number(read.left)} ${graph.text(graph.wire.decisions.comparison[first]!) || "?"} ${number(read.right)}: ${number(read.value)}` : number(read.value)]);
    }
    if (fold.members.length > 6) rows.push(["", `and ${grouped(fold.members.length - 6)} more`]);
    const outcomes = [...fold.members].map((each) => graph.wire.decisions.outcome[each]!);
    const strip = outcomes.length > 1 && outcomes.every((each) => each >= 0) ? outcomeStrip(outcomes) : null;
    const parts: Child[] = [facts(rows), strip];
    if (place !== undefined) {
      parts.push(h("h3", {}, "Over the whole run"), h("p", {}, place.text));
      for (const [outcome, count, line, text] of place.arms) {
        parts.push(h("p", { class: "arm" }, h("b", {}, outcome === 1 ? "True" : "False"), ` ${grouped(count)}x`, line === null ? "" : `, goes on in line ${line}: `, text === null ? "" : h("code", {}, text)));
      }
      if (place.spark !== null) parts.push(sparkline(place.spark, 260, 40, false), h("p", { class: "hint" }, place.arms.length > 0 ? "share of True over the steps" : "value over the steps"));
    }
    return [...parts, ...this.source(fold.site)];
  }

  private backward(fold: Fold): Child[] {
    const { graph } = this.view.shown!;
    const rows: [string, Child][] = [];
    for (const member of fold.members.slice(0, 4)) {
      const [, how, roots, inputs, , retain, create] = graph.wire.backwards[member]!;
      rows.push([how, h("span", {}, "from ", ...roots.map((root) => this.nodeButton(graph.valueNode[root]!, graph.valueName(root))))]);
      if (inputs.length > 0) rows.push(["for", inputs.map((each) => graph.valueName(each)).join(", ")]);
      if (retain === 1 || create === 1) rows.push(["keeps", [retain === 1 ? "retain_graph" : "", create === 1 ? "create_graph" : ""].filter(Boolean).join(", ")]);
    }
    const { reached } = this.view.shown!;
    const leaves: number[] = [];
    const missed: number[] = [];
    for (let node = 0; node < graph.size; node++) {
      if (!graph.isInput(node)) continue;
      const value = graph.firstOutput[node]!;
      if (!graph.type(value).grad || !graph.type(value).leaf) continue;
      (reached[node] === 1 ? leaves : missed).push(node);
    }
    return [facts(rows), h("h3", {}, plural(leaves.length, "leaf", "leaves") + " reached"), h("p", {}, ...list(leaves, (node) => this.nodeButton(node, graph.valueName(graph.firstOutput[node]!)))),
      missed.length > 0 ? h("div", { class: "reach no" }, h("h3", {}, `${missed.length} not reached`), h("p", {}, ...list(missed, (node) => this.nodeButton(node, graph.valueName(graph.firstOutput[node]!))))) : null,
      ...this.source(fold.site)];
  }

  private ghost(id: string): Child[] {
    const box = this.view.scene?.byId.get(id);
    const fold = this.view.shown!.graph.folds[Number(id.slice(1).split(":")[0])];
    return [h("p", { class: "kind" }, "an arm that did not run in this step"), h("h2", {}, box?.lines[0] ?? ""), h("p", {}, box?.lines[1] ?? ""), ...(fold === undefined ? [] : this.decision(fold))];
  }

  // -- small ones ---------------------------------------------------------------------------------------------

  private nodeButton(node: number, text: string): HTMLElement {
    return h("button", { class: "link", onclick: () => this.view.chooseNode(node) }, text);
  }

  private trail(trail: "ancestors" | "descendants", state: State): HTMLElement {
    return h("button", { "aria-pressed": String(state.trail === trail), onclick: () => this.view.app.go({ trail: state.trail === trail ? null : trail }) }, trail);
  }

  private where(site: number): string {
    return this.view.app.store.sites.where(site);
  }

  private source(number_: number): Child[] {
    const { store } = this.view.app;
    const site = store.sites.get(number_);
    if (site === null) return [h("p", { class: "hint" }, "Where it stands in the source is not known.")];
    return [
      h("h3", {}, h("button", { class: "link", onclick: () => this.view.app.go({ view: "source", file: site.file, line: site.line }) }, store.sites.where(number_)), h("span", { class: "in" }, ` in ${site.function}`)),
      snippet(store.head.files[site.file]?.text ?? null, site),
    ];
  }
}

export function facts(rows: readonly [string, Child][]): HTMLElement {
  return h("dl", {}, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function list(nodes: readonly number[], show: (node: number) => Child): Child[] {
  const found = nodes.slice(0, 24).flatMap((node, k) => [k === 0 ? "" : ", ", show(node)]);
  return nodes.length > 24 ? [...found, ` and ${grouped(nodes.length - 24)} more`] : found;
}

/** A path of at most twelve, -1 where some are left out. */
function thin(path: readonly number[]): number[] {
  const back = [...path];
  return back.length <= 12 ? back : [...back.slice(0, 6), -1, ...back.slice(-5)];
}

function outcomeStrip(outcomes: readonly number[]): HTMLElement {
  const shown = outcomes.slice(0, 400);
  const text = shown.map((each) => (each === 1 ? "T" : "F")).join("");
  return h("p", { class: "outcomes", title: "one letter a round" }, text + (outcomes.length > 400 ? "…" : ""));
}

function legend(): HTMLElement {
  const item = (kind: string, text: string): HTMLElement => h("li", {}, h("span", { class: `key ${kind}`, "aria-hidden": "true" }), text);
  return h("ul", { class: "keys" },
    item("input", "a tensor that comes in"), item("op", "an operation"), item("grad", "green edge: it asks for gradients"),
    item("decision", "Python asked a tensor for its value and chose an arm"), item("ghost", "an arm that did not run in this step"),
    item("loop", "a loop, drawn once, with its rounds"), item("group", "a function of the program"),
    item("cut", "dashed: no gradient comes back here"));
}
