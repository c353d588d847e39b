/** The part that compares the graphs of two steps: the divergence first, then place by place. */

import type { App, Part } from "./app";
import { contrastCards } from "./contrastview";
import { divergence, placesOf, type Happening } from "./compare";
import { h, replace, type Child } from "./dom";
import { snippet } from "./snippet";
import type { State } from "./state";
import { Told } from "./store";
import { duration, grouped, number, size } from "./words";
import { real } from "./wire";

export class DiffView implements Part {
  readonly element = h("section", { class: "diff-part" });
  private readonly first = h("input", { type: "number", min: 0, "aria-label": "first step", onchange: () => this.choose() });
  private readonly second = h("input", { type: "number", min: 0, "aria-label": "second step", onchange: () => this.choose() });
  private readonly body = h("div", { class: "diff-body" });
  private turn = 0;

  constructor(private readonly app: App) {
    for (const input of [this.first, this.second]) input.max = String(app.store.steps - 1);
    const { contrast } = app.store.head;
    if (contrast !== null) this.element.append(...contrastCards(app, contrast));
    if (app.store.steps < 2) return;
    if (contrast !== null) this.element.append(h("h2", {}, "Two steps of this run"));
    this.element.append(
      h("div", { class: "card row" }, h("label", {}, "step ", this.first), h("span", {}, "against"), h("label", {}, "step ", this.second),
        h("button", { onclick: () => app.go({ step: this.other(app.state), other: app.state.step }) }, "swap"),
        h("button", { onclick: () => app.go({ other: this.unlike(app.state.step) }) }, "nearest that differs")), this.body);
  }

  private choose(): void {
    const last = this.app.store.steps - 1;
    const whole = (input: HTMLInputElement): number => Math.min(Math.max(Math.round(Number(input.value)) || 0, 0), last);
    this.app.go({ step: whole(this.first), other: whole(this.second) });
  }

  private other(state: State): number {
    return state.other ?? this.unlike(state.step);
  }

  /** The nearest step of the same kind that built another graph. */
  private unlike(step: number): number {
    const { graph, kind } = this.app.store.head.steps;
    for (let far = 1; far < graph.length; far++) {
      for (const at of [step - far, step + far]) {
        if (graph[at] !== undefined && graph[at]! >= 0 && graph[at] !== graph[step] && kind[at] === kind[step]) return at;
      }
    }
    return step > 0 ? step - 1 : Math.min(step + 1, graph.length - 1);
  }

  async update(state: State): Promise<void> {
    if (this.app.store.steps < 2) return;
    const turn = ++this.turn;
    const other = this.other(state);
    this.first.value = String(state.step);
    this.second.value = String(other);
    try {
      const [a, b] = await Promise.all([this.app.store.stepGraph(state.step), this.app.store.stepGraph(other)]);
      const [readsA, readsB] = await Promise.all([this.app.store.readings(state.step), this.app.store.readings(other)]);
      if (turn !== this.turn) return;
      const same = this.app.store.graphOf(state.step) === this.app.store.graphOf(other);
      const found = divergence(a, b, readsA, readsB, this.app.store.sites);
      const places = placesOf(a, b, this.app.store.sites);
      const differing = places.filter((place) => place.counts[0] !== place.counts[1] || place.types[0] !== place.types[1]);
      replace(this.body,
        h("div", { class: "card" }, h("h2", {}, found === null ? "No divergence" : "Where they part"),
          found === null
            ? h("p", {}, same ? "Both steps built the same graph; only their numbers differ." : "The same operations ran in the same order; only sizes differ.")
            : h("div", {}, h("p", {}, found.sentence),
                h("div", { class: "sides" }, this.side(`step ${state.step}`, found.here, state.step), this.side(`step ${other}`, found.there, other)))),
        h("div", { class: "card" }, h("h2", {}, "Numbers"), this.numbers(state.step, other)),
        h("div", { class: "card" }, h("h2", {}, `${grouped(differing.length)} of ${grouped(places.length)} places differ`),
          differing.length === 0 ? null : h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "places that differ" }, h("table", {},
            h("thead", {}, h("tr", {}, ...["line", "what", `step ${state.step}`, `step ${other}`].map((name) => h("th", { scope: "col" }, name)))),
            h("tbody", {}, ...differing.slice(0, 400).map((place) => h("tr", {}, h("td", {}, this.line(place.site)), h("td", {}, h("code", {}, place.name)),
              h("td", {}, side(place.counts[0], place.types[0])), h("td", {}, side(place.counts[1], place.types[1])))))))));
    } catch (error) {
      if (turn !== this.turn) return;
      replace(this.body, h("p", { class: "told" }, error instanceof Told ? error.message : String(error)));
    }
  }

  private line(site: number): Child {
    const found = this.app.store.sites.get(site);
    return found === null ? "" : h("button", { class: "link", onclick: () => this.app.go({ view: "source", file: found.file, line: found.line }) }, this.app.store.sites.where(site));
  }

  private side(name: string, what: Happening | null, step: number): HTMLElement {
    const site = what === null ? null : this.app.store.sites.get(what.site);
    return h("div", { class: "side" }, h("h3", {}, name), h("p", {}, what === null ? "ends here" : what.text),
      site === null ? null : snippet(this.app.store.head.files[site.file]?.text ?? null, site),
      what === null || what.node < 0 ? null : h("button", { onclick: () => this.app.go({ view: "graph", step, node: what.node, box: null }) }, "in the graph"));
  }

  private numbers(a: number, b: number): HTMLElement {
    const { steps, variants } = this.app.store.head;
    const ops = new Map(variants.map((variant) => [variant[0], variant[5]]));
    const rows: [string, string, string][] = [
      ["graph", String(steps.graph[a]), String(steps.graph[b])],
      ["operations", grouped(ops.get(steps.graph[a]!) ?? 0), grouped(ops.get(steps.graph[b]!) ?? 0)],
      ["loss", number(real(steps.loss[a])), number(real(steps.loss[b]))],
      ["kept for backward", size(steps.saved[a]!), size(steps.saved[b]!)],
      ["time", duration(steps.ns[a]!), duration(steps.ns[b]!)],
    ];
    return h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, ""), h("th", { scope: "col" }, `step ${a}`), h("th", { scope: "col" }, `step ${b}`))),
      h("tbody", {}, ...rows.map(([name, x, y]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, x), h("td", {}, y)))));
  }
}

function side(count: number, types: string): string {
  return count === 0 ? "did not run" : `${grouped(count)}x ${types}`.trim();
}
