/** The part that shows batched runs: the groups in time, how wide they were, what ran alone, and the lines behind it. */

import type { App, Part } from "./app";
import { Strips, type Row } from "./chart";
import { h, replace, type Child } from "./dom";
import { COLOURS, scroll } from "./runview";
import type { State } from "./state";
import type { BatchWire, GroupsWire } from "./wire";
import { duration, grouped, plural } from "./words";

export class BatchView implements Part {
  readonly element = h("section", { class: "batch-part" });
  private readonly choice: HTMLSelectElement;
  private readonly body = h("div");
  private readonly chosen = h("div", { class: "card", "aria-live": "polite" });
  private strips: Strips | null = null;
  private groups: GroupsWire | null = null;
  private turn = 0;

  constructor(private readonly app: App) {
    const { batches } = app.store.head;
    const sum = (of: (batch: BatchWire) => number): number => batches.reduce((total, batch) => total + of(batch), 0);
    const [calls, groups] = [sum((each) => each.calls), sum((each) => each.groups)];
    this.choice = h("select", { "aria-label": "batched run", onchange: () => app.go({ batch: Number(this.choice.value), group: null }) },
      ...batches.map((each) => h("option", { value: each.id }, `run ${each.id}, step ${each.step}: ${plural(each.examples, "example")}`)));
    replace(this.element,
      h("div", { class: "card" }, h("h2", {}, plural(batches.length, "batched run")),
        h("p", {}, `${grouped(calls)} calls of ${plural(sum((each) => each.examples), "example")} ran in ${plural(groups, "group")}`,
          groups > 0 ? `, ${(calls / groups).toFixed(1)} calls a group.` : "."),
        h("div", { class: "row" }, this.choice)), this.body);
  }

  private one(state: State): BatchWire {
    const { batches } = this.app.store.head;
    return batches.find((each) => each.id === state.batch) ?? batches.find((each) => each.detail) ?? batches[0]!;
  }

  async update(state: State, before: State | null): Promise<void> {
    const turn = ++this.turn;
    const batch = this.one(state);
    this.choice.value = String(batch.id);
    if (before === null || this.one(before) !== batch || this.body.childElementCount === 0) {
      const groups = batch.detail ? await this.app.store.groups(batch.id) : null;
      if (turn !== this.turn) return;
      this.groups = groups;
      this.show(batch);
    }
    if (this.groups !== null && this.groups.name.length > 0) this.group(Math.min(state.group ?? widest(this.groups), this.groups.name.length - 1));
  }

  private show(batch: BatchWire): void {
    const { groups } = this;
    const facts: [string, Child][] = [
      ["called at", this.line(batch.site)], ["examples", grouped(batch.examples)], ["calls", grouped(batch.calls)],
      ["groups", `${grouped(batch.groups)}${batch.groups > 0 ? `, ${(batch.calls / batch.groups).toFixed(1)} calls each` : ""}`],
      ["flushes", `what waited was run ${plural(batch.flushes, "time")}`], ["time", duration(batch.ns)],
    ];
    this.strips = groups !== null && groups.name.length > 1 ? new Strips(groups.name.length, rows(groups), (group) => this.app.go({ group }), "group") : null;
    replace(this.body,
      h("div", { class: "card" }, h("h2", {}, `Run ${batch.id}`),
        h("dl", { class: "summary" }, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
        batch.loop === null ? null : h("p", { class: "note" }, `It ran as a plain loop: ${batch.loop}`),
        batch.hint === null ? null : h("p", { class: "note" }, batch.hint)),
      groups === null ? h("p", { class: "hint" }, "Of this run only the sums were kept; the first runs have every group.") : null,
      this.strips === null ? null : h("div", { class: "card" }, h("h2", {}, "Groups in time"), this.strips.canvas,
        h("p", { class: "hint" }, "Each column is one group: calls of one kind that ran as one. Click one; drag and wheel move and zoom. One colour and letter an operation.")),
      groups === null || groups.name.length === 0 ? null : this.chosen,
      groups === null || groups.name.length === 0 ? null : this.byName(groups),
      this.reasons(batch), this.alone(batch));
    this.strips?.draw();
  }

  /** One group: what ran as one, for which examples, from which lines, and why it had to run then. */
  private group(number: number): void {
    const groups = this.groups!;
    if (this.strips !== null) this.strips.step = number;
    const flush = groups.flushes.find(([id]) => id === groups.flush[number]);
    const examples = [...new Set(groups.examples[number]!)].sort((a, b) => a - b);
    const why: Child = flush === undefined ? "" : flush[1] < 0 ? h("p", {}, "Run because all examples had returned.")
      : h("p", {}, `Run because ${plural(flush[2], "example")} waited for a value, most at `, this.line(flush[1]), ".");
    const step = (by: number): void => this.app.go({ group: Math.min(Math.max(number + by, 0), groups.name.length - 1) });
    replace(this.chosen,
      h("div", { class: "row" }, h("h2", {}, `Group ${number}: ${groups.names[groups.name[number]!]!}`), h("span", { class: "space" }),
        h("button", { "aria-label": "previous group", onclick: () => step(-1) }, "‹"), h("button", { "aria-label": "next group", onclick: () => step(1) }, "›")),
      h("p", {}, `${plural(groups.width[number]!, "call")} ran as one, of ${plural(examples.length, "example")}, in ${duration(groups.ns[number]!)}.`),
      why,
      h("ul", {}, ...groups.places[number]!.map(([site, calls]) => h("li", {}, this.line(site), " ", h("code", {}, this.app.store.sites.get(site)?.expression ?? ""), ` ${grouped(calls)}x`))),
      h("p", { class: "hint" }, `examples ${examples.slice(0, 60).join(", ")}${examples.length > 60 ? ", …" : ""}`));
  }

  private byName(groups: GroupsWire): HTMLElement {
    const sums = groups.names.map((name) => ({ name, groups: 0, calls: 0, ns: 0 }));
    groups.name.forEach((name, k) => {
      const sum = sums[name]!;
      sum.groups++;
      sum.calls += groups.width[k]!;
      sum.ns += groups.ns[k]!;
    });
    return h("div", { class: "card" }, h("h2", {}, "By operation"), table("groups by operation", ["", "operation", "groups", "calls", "calls a group", "time"],
      sums.map((sum, index) => ({ sum, index })).sort((a, b) => b.sum.ns - a.sum.ns).map(({ sum, index }) => [
        swatch(index), h("code", {}, sum.name), grouped(sum.groups), grouped(sum.calls), (sum.calls / sum.groups).toFixed(1), duration(sum.ns)])));
  }

  private reasons(batch: BatchWire): Child {
    if (batch.reads.length === 0) return null;
    return h("div", { class: "card" }, h("h2", {}, "Where examples asked for values"),
      h("p", { class: "hint" }, "A value that Python asks for has to be there: what waits is run. Fewer such places, or later ones, make wider groups."),
      table("values asked for", ["line", "asked", "times"], batch.reads.map(([site, times]) => [this.line(site), h("code", {}, this.app.store.sites.get(site)?.expression ?? ""), grouped(times)])));
  }

  private alone(batch: BatchWire): HTMLElement {
    return h("div", { class: "card" }, h("h2", {}, "What ran alone"),
      batch.alone.length === 0 ? h("p", {}, "Nothing: every call could run in a group.")
        : table("what ran alone", ["operation", "why", "times"], batch.alone.map(([name, why, times]) => [h("code", {}, name), why, grouped(times)])));
  }

  private line(site: number): Child {
    const found = this.app.store.sites.get(site);
    if (found === null) return "an unknown line";
    return h("button", { class: "link", onclick: () => this.app.go({ view: "source", file: found.file, line: found.line }) }, this.app.store.sites.where(site));
  }

  key(event: KeyboardEvent): boolean {
    if (this.groups === null || (event.key !== "ArrowRight" && event.key !== "ArrowLeft")) return false;
    const now = this.app.state.group ?? widest(this.groups);
    this.app.go({ group: Math.min(Math.max(now + (event.key === "ArrowRight" ? 1 : -1), 0), this.groups.name.length - 1) });
    return true;
  }
}

function colour(name: number): { colour: string; letter: string } {
  const last = COLOURS.length - 1;
  return { colour: COLOURS[Math.min(name, last)]!, letter: name < last ? String.fromCharCode(65 + name) : "·" };
}

function swatch(name: number): HTMLElement {
  const made = h("span", { class: "swatch" }, colour(name).letter);
  made.style.background = colour(name).colour;
  return made;
}

function widest(groups: GroupsWire): number {
  return groups.width.reduce((best, width, k) => (width > groups.width[best]! ? k : best), 0);
}

function rows(groups: GroupsWire): Row[] {
  const active = groups.examples.map((examples) => new Set(examples).size);
  return [
    { name: "operation", height: 22, cell: (group) => colour(groups.name[group]!), words: (group) => groups.names[groups.name[group]!]! },
    { name: "width: calls that ran as one", height: 60, value: (group) => groups.width[group]!, words: (group) => grouped(groups.width[group]!) },
    { name: "lanes active: examples in the group", height: 44, value: (group) => active[group]!, words: (group) => grouped(active[group]!) },
    { name: "flush: a step up where what waited was run", height: 30, value: (group) => groups.flush[group]!, words: (group) => grouped(groups.flush[group]!) },
    { name: "time", height: 44, value: (group) => groups.ns[group]!, words: (group) => duration(groups.ns[group]!) },
  ];
}

function table(name: string, heads: string[], lines: Child[][]): HTMLElement {
  return scroll(name, h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...lines.map((cells) => h("tr", {}, ...cells.map((cell) => h("td", {}, cell)))))));
}
