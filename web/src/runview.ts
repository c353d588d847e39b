/** The part that shows the whole run: the steps, what they cost, the decisions, the distinct graphs. */

import type { App, Part } from "./app";
import { sparkline, Strips, type Row } from "./chart";
import { h, replace, type Child } from "./dom";
import type { State } from "./state";
import { real, type PlaceWire } from "./wire";
import { duration, grouped, number, plural, size } from "./words";

// Far apart for all kinds of eyes; every colour also has a letter. Later graphs share the last one.
export const COLOURS = ["#3b6fd4", "#c05a00", "#17805c", "#a03d9b", "#8a6d00", "#c23b55", "#2b7f9e", "#6d55c8", "#5f7a1f", "#70757f"];

export class RunView implements Part {
  readonly element = h("section", { class: "run-part" });
  private readonly strips: Strips | null;
  private readonly cursor = h("input", { type: "range", class: "cursor", "aria-label": "step" });
  private readonly facts = h("p", { class: "cursor-facts", "aria-live": "polite" });
  private readonly rank = new Map<number, number>();
  private readonly programs = new Map<number, number>();
  private readonly programRank = new Map<number, number>();
  private readonly tints = new Map<string, string>();

  constructor(private readonly app: App) {
    const { head } = app.store;
    [...head.variants].sort((a, b) => b[2] - a[2]).forEach((variant, k) => this.rank.set(variant[0], k));
    for (const variant of head.variants) this.programs.set(variant[0], variant[1]);
    [...head.programs].sort((a, b) => b.steps - a.steps).forEach((program, k) => this.programRank.set(program.number, k));
    const steps = app.store.steps;
    this.strips = steps > 1 ? new Strips(steps, this.rows(), (step) => app.go({ step })) : null;
    replace(this.element,
      this.summary(),
      ...(this.strips === null ? [] : [this.timeline(this.strips)]),
      ...this.findings(), ...this.decisions(), ...this.variants(),
    );
  }

  private colour(graph: number): { colour: string; letter: string } {
    if (graph < 0) return { colour: "#9aa0aa", letter: "·" };
    if (this.rank.size > COLOURS.length) {
      // Too many graphs for a colour each: one a program, lighter or darker by graph.
      const program = this.programs.get(graph) ?? 0;
      const rank = Math.min(this.programRank.get(program) ?? 0, COLOURS.length - 1);
      const key = `${rank}:${graph % 7}`;
      let colour = this.tints.get(key);
      if (colour === undefined) this.tints.set(key, (colour = tint(COLOURS[rank]!, ((graph % 7) - 2) * 0.11)));
      return { colour, letter: rank < COLOURS.length - 1 ? String.fromCharCode(65 + rank) : "·" };
    }
    const rank = this.rank.get(graph) ?? COLOURS.length;
    return { colour: COLOURS[Math.min(rank, COLOURS.length - 1)]!, letter: rank < COLOURS.length - 1 ? String.fromCharCode(65 + rank) : "·" };
  }

  private rows(): Row[] {
    const { head } = this.app.store;
    const { steps } = head;
    const rows: Row[] = [{
      name: "graph built by each step", height: 22, cell: (step) => this.colour(steps.graph[step]!),
      words: (step) => `step ${step}: graph ${steps.graph[step]! < 0 ? "not kept" : steps.graph[step]}`,
    }];
    const numbers = (name: string, values: readonly (number | null)[], words: (value: number) => string): void => {
      if (values.some((value) => value !== null && value !== 0)) {
        rows.push({ name, height: 44, value: (step) => values[step] ?? null, words: (step) => (values[step] == null ? "" : words(values[step]!)) });
      }
    };
    numbers("loss", steps.loss.map(real), number);
    numbers("gradient norm", steps.grad_norm.map(real), number);
    const nodes = new Map(head.variants.map((variant) => [variant[0], variant[5]]));
    numbers("operations", steps.graph.map((graph) => nodes.get(graph) ?? null), grouped);
    numbers("kept for backward", steps.saved, size);
    numbers("time", steps.ns, duration);
    return rows;
  }

  private summary(): HTMLElement {
    const { head } = this.app.store;
    return h("div", { class: "card" },
      h("h2", {}, "The run"),
      h("dl", { class: "summary" }, ...head.summary.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
      ...head.notes.map(([, text]) => h("p", { class: "note" }, text)),
      this.app.store.steps === 0 ? h("p", { class: "told" }, "Nothing was computed with tensors while this was recorded.") : null);
  }

  private timeline(strips: Strips): HTMLElement {
    const last = this.app.store.steps - 1;
    this.cursor.min = "0";
    this.cursor.max = String(last);
    this.cursor.addEventListener("input", () => this.app.go({ step: Number(this.cursor.value) }));
    const button = (text: string, title: string, act: () => void): HTMLElement => h("button", { title, onclick: act }, text);
    return h("div", { class: "card" },
      h("div", { class: "row" }, h("h2", {}, "Steps"), h("span", { class: "space" }),
        button("+", "fewer steps, wider", () => strips.zoom(0.5, this.app.state.step)), button("−", "more steps", () => strips.zoom(2, this.app.state.step)),
        button("all", "all steps", () => strips.show(0, this.app.store.steps)),
        button("graph of this step", "go to the graph", () => this.app.go({ view: "graph", node: null, box: null }))),
      strips.canvas, this.cursor, this.facts,
      h("p", { class: "hint" }, `Click a step, drag to move, turn the wheel to zoom. ${this.rank.size > COLOURS.length ? "One colour and letter a program, one shade a distinct graph." : "One colour and letter a distinct graph, the most frequent first."}`));
  }

  private findings(): Child[] {
    const { head } = this.app.store;
    if (head.findings.length === 0) return [];
    return [h("div", { class: "card" }, h("h2", {}, plural(head.findings.length, "finding")),
      h("ul", { class: "findings" }, ...head.findings.map(([, text, file, line]) =>
        h("li", {}, h("button", { class: "link", onclick: () => this.app.go({ view: "source", file, line }) }, `${head.files[file]?.name ?? "?"}:${line}`), " ", text))))];
  }

  private decisions(): Child[] {
    const { head, sites } = this.app.store;
    if (head.places.length === 0) return [];
    const row = (place: PlaceWire): HTMLElement => {
      const site = sites.get(place.site);
      return h("tr", { class: place.decides ? "decides" : "reads" },
        h("td", {}, site === null ? "(unknown)" : h("button", { class: "link", onclick: () => this.app.go({ view: "source", file: site.file, line: site.line }) }, sites.where(place.site))),
        h("td", {}, h("code", {}, `${place.decides ? "◇ " : ""}${place.predicate}`)),
        h("td", { class: "right" }, grouped(place.count)),
        h("td", {}, ...(place.arms.length > 0 ? [bar(place.arms), h("span", { class: "arms" }, place.arms.map(([outcome, count]) => `${grouped(count)}x ${outcome === 1 ? "True" : "False"}`).join(", "))] : [place.numbers === null ? "" : place.numbers[0] === place.numbers[2] ? place.numbers[0] : `${place.numbers[0]} to ${place.numbers[2]}`])),
        h("td", {}, place.closest === null || !place.decides ? "" : h("span", {}, place.closest, " in ", h("button", { class: "link", onclick: () => this.app.go({ view: "graph", step: place.closest_step ?? 0, node: null, box: null }) }, `step ${place.closest_step}`))),
        h("td", {}, place.spark === null || place.spark.length < 2 ? "" : sparkline(place.spark, 130, 24, false)));
    };
    const deciding = head.places.filter((place) => place.decides);
    const reading = head.places.filter((place) => !place.decides);
    const table = (places: PlaceWire[]): HTMLElement => scroll("decisions", h("table", {},
      h("thead", {}, h("tr", {}, ...["line", "asked", "times", "fell", "closest call", "over the steps"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...places.map(row))));
    return [h("div", { class: "card" }, h("h2", {}, "Decisions"),
      h("p", { class: "hint" }, deciding.length === 0 ? "No decision hung on the value of a tensor." : "Where Python asked a tensor for its value and acted on it. Closest call: how near the two sides of the comparison came."),
      deciding.length > 0 ? table(deciding) : null,
      reading.length > 0 ? h("details", {}, h("summary", {}, `${plural(reading.length, "place")} only read a value, nothing decided`), table(reading)) : null,
      head.places.some((place) => place.sampled) ? h("p", { class: "hint" }, "Values and closest calls come from a part of the steps; counts are exact.") : null)];
  }

  private variants(): Child[] {
    const { head, sites } = this.app.store;
    const byGraph = new Map(head.variants.map((variant) => [variant[0], variant]));
    if (head.programs.length === 0) return [];
    const rows: HTMLElement[] = [];
    for (const program of head.programs.slice(0, 30)) {
      rows.push(h("tr", { class: "program-row" }, h("th", { colspan: 6, scope: "colgroup" },
        `program ${program.number}: ${plural(program.steps, KINDS[program.kind] ?? program.kind)}, ${plural(program.graphs, "graph")}, ${program.operations} ops`,
        program.sizes === "" ? "" : `, ${program.sizes}`)));
      for (const [graph, sizes, trips, parting] of program.rows) {
        const variant = byGraph.get(graph)!;
        const { colour, letter } = this.colour(graph);
        const site = parting === null ? null : sites.get(parting[1]);
        const swatch = h("span", { class: "swatch" }, letter);
        swatch.style.background = colour;
        rows.push(h("tr", {},
          h("td", {}, swatch, h("button", { class: "link", onclick: () => this.app.go({ view: "graph", step: variant[3], node: null, box: null, open: null }) }, `graph ${graph}`)),
          h("td", { class: "right" }, `${grouped(variant[2])}x`), h("td", { class: "right" }, grouped(variant[5])),
          h("td", {}, trips), h("td", {}, sizes),
          h("td", {}, parting === null ? "" : h("span", {},
            parting[4] === null ? "" : site === null ? `line ${parting[4]}: ` : h("button", { class: "link", onclick: () => this.app.go({ view: "diff", step: variant[3], other: byGraph.get(program.rows[0]![0])![3] }) }, `${sites.fileName(site.file)}:${parting[4]}`),
            ` ${parting[2]}, there ${parting[3]}`))));
      }
      const more = program.graphs - program.rows.length;
      if (more > 0) rows.push(h("tr", {}, h("td", { colspan: 6, class: "hint" }, `and ${plural(more, "rarer graph")}`)));
    }
    return [h("div", { class: "card" }, h("h2", {}, "Distinct graphs"),
      h("p", { class: "hint" }, "Graphs of one program ran the same code; they differ in rounds, arms and sizes. Last column: where a graph first parts from the most frequent one."),
      scroll("distinct graphs", h("table", {}, h("thead", {}, h("tr", {}, ...["graph", "steps", "ops", "rounds", "input sizes", "parts from the first"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...rows))))];
  }

  update(state: State): void {
    if (this.strips === null) return;
    this.strips.step = state.step;
    this.strips.draw();
    this.cursor.value = String(state.step);
    const { steps } = this.app.store.head;
    const { letter } = this.colour(steps.graph[state.step]!);
    const loss = real(steps.loss[state.step]);
    this.facts.textContent = [
      `step ${state.step}`, steps.graph[state.step]! < 0 ? "no graph kept" : `graph ${steps.graph[state.step]}${letter === "·" ? "" : ` (${letter})`}`,
      loss === null ? "" : `loss ${number(loss)}`, duration(steps.ns[state.step]!), steps.saved[state.step]! > 0 ? `${size(steps.saved[state.step]!)} kept for backward` : "",
    ].filter(Boolean).join(", ");
  }

  key(event: KeyboardEvent): boolean {
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") this.app.toStep(this.app.state.step + (event.key === "ArrowRight" ? 1 : -1));
    else if (event.key === "Enter" && event.target === document.body) this.app.go({ view: "graph" });
    else return false;
    return true;
  }
}

/** A colour made lighter (up to 1) or darker (down to -1). */
export function tint(colour: string, by: number): string {
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const mixed = parts.map((part) => Math.round(by > 0 ? part + (255 - part) * by : part * (1 + by)));
  return `#${mixed.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

const KINDS: Record<string, string> = { train: "training step", forward: "forward step", rest: "other step" };

/** Wide tables move inside their own frame, which a keyboard can reach. */
export function scroll(name: string, table: HTMLElement): HTMLElement {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, table);
}

function bar(arms: PlaceWire["arms"]): HTMLElement {
  const total = arms.reduce((sum, arm) => sum + arm[1], 0) || 1;
  const yes = arms.find((arm) => arm[0] === 1)?.[1] ?? 0;
  const inner = h("span", { class: "yes" });
  inner.style.width = `${(100 * yes) / total}%`;
  return h("span", { class: "share", "aria-hidden": "true" }, inner);
}
