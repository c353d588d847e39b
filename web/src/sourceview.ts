/** The part that shows the person's own files, line by line with what happened there. */

import type { App, Part } from "./app";
import { h, replace, type Child } from "./dom";
import { marked } from "./snippet";
import type { State } from "./state";
import type { FileWire } from "./wire";
import { duration, grouped, plural, size } from "./words";

const SIGNS: Record<string, string> = { decision: "◇", read: "·", loop: "↻", cut: "/", write: "!", backward: "←", finding: "!" };

export class SourceView implements Part {
  readonly element = h("section", { class: "source-part" });
  private readonly list = h("nav", { class: "files", "aria-label": "files" });
  private readonly body = h("div", { class: "code", tabindex: 0, role: "region", "aria-label": "annotated source" });
  private file = -1;
  private readonly order: number[];

  constructor(private readonly app: App) {
    const { files, meta } = app.store.head;
    const weight = (file: FileWire): number => file.lines.reduce((sum, line) => sum + line[3], 0);
    const own = (file: FileWire): number => (meta["program"] !== undefined && file.name.replace(/\.py$/, "").endsWith(meta["program"]) ? 1 : 0);
    this.order = files.map((_, k) => k).filter((k) => files[k]!.lines.length > 0 || files[k]!.text !== null)
      .sort((a, b) => own(files[b]!) - own(files[a]!) || weight(files[b]!) - weight(files[a]!) || files[b]!.lines.length - files[a]!.lines.length);
    this.element.append(this.list, this.body);
  }

  update(state: State, before: State | null): void {
    const { files } = this.app.store.head;
    const file = state.file !== null && files[state.file] !== undefined ? state.file : (this.order[0] ?? -1);
    if (file < 0) {
      replace(this.body, h("p", { class: "told" }, "No line of the program ran an operation on tensors while it was recorded."));
      return;
    }
    replace(this.list, ...this.order.map((k) => h("button", {
      "aria-current": k === file ? "true" : null, onclick: () => this.app.go({ file: k, line: null }),
    }, files[k]!.name, h("span", { class: "in" }, ` ${plural(files[k]!.lines.reduce((sum, line) => sum + line[2], 0), "op")}`))));
    if (file !== this.file) {
      this.file = file;
      this.draw(file);
    }
    for (const row of this.body.querySelectorAll(".chosen")) row.classList.remove("chosen");
    const site = state.node === null && state.box === null ? null : this.chosenSite(state);
    if (site !== null && site.file === file && state.line === null) this.mark(site.line);
    if (state.line === null && before === null) {
      // Begin where something was decided, or else where the time went.
      const lines = files[file]!.lines;
      const first = lines.find((line) => line[5].some(([kind]) => kind === "decision")) ?? [...lines].sort((a, b) => b[3] - a[3])[0];
      if (first !== undefined) this.scrollTo(this.body.querySelector<HTMLElement>(`[data-line="${first[0]}"]`));
    }
    if (state.line !== null) this.mark(state.line, before === null || before.line !== state.line || before.file !== state.file || before.view !== state.view);
  }

  private chosenSite(state: State): { file: number; line: number } | null {
    const view = this.app.parts.get("graph") as { shown?: { graph: { site: Int32Array } } | null } | undefined;
    const graph = view?.shown?.graph;
    return graph === undefined || state.node === null ? null : this.app.store.sites.get(graph.site[state.node] ?? -1);
  }

  private mark(line: number, scroll = true): void {
    const row = this.body.querySelector<HTMLElement>(`[data-line="${line}"]`);
    row?.classList.add("chosen");
    if (scroll) this.scrollTo(row);
  }

  /** To the middle, up and down only. */
  private scrollTo(row: HTMLElement | null): void {
    if (row !== null) this.body.scrollTop = row.offsetTop - this.body.clientHeight / 2;
  }

  private draw(number: number): void {
    const file = this.app.store.head.files[number]!;
    const byLine = new Map(file.lines.map((line) => [line[0], line]));
    const all = this.app.store.head.files.reduce((sum, each) => sum + each.lines.reduce((more, line) => more + line[3], 0), 0);
    const most = Math.max(...file.lines.map((line) => line[3]), 1);
    const text = file.text?.replace(/\n$/, "").split("\n") ?? null;
    const numbers = text === null ? [...byLine.keys()].sort((a, b) => a - b) : text.map((_, k) => k + 1);
    const expressions = this.expressions(number);
    const rows = numbers.map((at) => {
      const line = byLine.get(at);
      const source = text === null ? "(the source was not kept)" : text[at - 1]!;
      const [, runs = 0, ops = 0, ns = 0, saved = 0, marks = []] = line ?? [];
      const heat = h("span", { class: "heat" });
      heat.style.width = `${Math.round((100 * ns) / most)}%`;
      const number_: Child = line === undefined || (ops === 0 && marks.length === 0) ? h("span", {}, String(at)) : h("button", {
        class: "link", title: "show the nodes of this line in the graph", onclick: () => this.toGraph(number, at),
      }, String(at));
      return h("tr", { "data-line": at, class: line === undefined ? "quiet" : "" },
        h("td", { class: "right" }, runs > 0 ? grouped(runs) : ""), h("td", { class: "right" }, ops > 0 ? grouped(ops) : ""),
        h("td", { class: "right time" }, ns > 0 ? h("span", { class: "heat-cell" }, heat, h("span", {}, duration(ns))) : ""),
        h("td", { class: "right" }, ns > 0 && all > 0 && ns / all >= 0.005 ? `${Math.round((100 * ns) / all)}` : ""),
        h("td", { class: "right" }, saved > 0 ? size(saved) : ""), h("td", { class: "right line-number" }, number_),
        h("td", { class: "text" }, h("code", {}, ...(expressions.get(at) === undefined ? [source] : marked(source, at, expressions.get(at)!))),
          ...marks.map(([kind, words]) => h("span", { class: `mark ${kind}` }, `${SIGNS[kind] ?? "!"} ${words}`))));
    });
    replace(this.body,
      h("p", { class: "hint" }, h("b", {}, file.name), ` ${plural(file.lines.reduce((sum, line) => sum + line[2], 0), "op")}, ${duration(file.lines.reduce((sum, line) => sum + line[3], 0))}. Click a line number to see its nodes in the graph of the step.`),
      h("table", {}, h("thead", {}, h("tr", {}, ...["runs", "ops", "time", "%", "saved", "line"].map((name) => h("th", { scope: "col", class: "right" }, name)), h("th", { scope: "col" }, "source"))), h("tbody", {}, ...rows)));
  }

  /** Tests that decided, so that they stand out in their line. */
  private expressions(file: number): Map<number, { line: number; endLine: number; column: number; endColumn: number }> {
    const found = new Map<number, { line: number; endLine: number; column: number; endColumn: number }>();
    for (const place of this.app.store.head.places) {
      const site = this.app.store.sites.get(place.site);
      if (site !== null && site.file === file && place.decides) found.set(site.line, site);
    }
    return found;
  }

  private toGraph(file: number, line: number): void {
    // A step in which the line ran, if the one that is shown did not run it, would be another question: stay.
    this.app.go({ view: "graph", file, line, node: null, box: null });
  }
}
