/** Search over all nodes of the graph that is shown: operations, names, modules, lines, predicates, `$12`. */

import type { App } from "./app";
import { h, replace } from "./dom";
import type { Graph } from "./graph";
import { GraphView } from "./graphview";
import type { Sites } from "./site";
import { grouped } from "./words";

const MOST = 40;

/** For every fold all words by which it may be found, in small letters. */
export function index(graph: Graph, sites: Sites): string[] {
  return graph.folds.map((fold) => {
    const words = new Set<string>([fold.label]);
    const site = sites.get(fold.site);
    if (site !== null) words.add(site.expression).add(site.function).add(`${sites.fileName(site.file)}:${site.line}`).add(site.target);
    if (fold.kind === "op" || fold.kind === "input") {
      const names = new Set<number>();
      const scopes = new Set<number>();
      for (const member of fold.members) {
        for (let k = 0; k < graph.outputs[member]!; k++) names.add(graph.wire.values.name[graph.firstOutput[member]! + k]!);
        scopes.add(member);
        if (names.size > 50) break;
      }
      for (const name of names) words.add(graph.text(name));
      const scope = graph.scope(fold.members[0]!);
      if (scope !== null) words.add(scope[0]).add(scope[1]);
      words.add(graph.cut(fold.members[0]!));
    }
    return [...words].join(" \n").toLowerCase();
  });
}

export function find(words: readonly string[], query: string): number[] {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found: number[] = [];
  words.forEach((text, fold) => {
    if (fold > 0 && wanted.every((word) => text.includes(word))) found.push(fold);
  });
  return found;
}

export class Search {
  private readonly input = h("input", {
    type: "search", placeholder: "search the graph ( / )", "aria-label": "search the graph", role: "combobox", "aria-expanded": "false",
    "aria-controls": "search-results", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false",
  });
  private readonly results = h("ul", { class: "results", id: "search-results", role: "listbox", "aria-label": "found", hidden: true });
  readonly element = h("div", { class: "search", role: "search" }, this.input, this.results);
  private words: string[] = [];
  private of: Graph | null = null;
  private at = -1;

  constructor(private readonly app: App) {
    this.input.addEventListener("input", () => void this.look());
    this.input.addEventListener("focus", () => void this.look());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
  }

  focus(): void {
    this.input.focus();
    this.input.select();
  }

  private close(): void {
    this.results.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }

  private async look(): Promise<void> {
    const query = this.input.value.trim();
    if (query === "") {
      this.close();
      return;
    }
    let graph: Graph;
    try {
      graph = await this.app.store.stepGraph(this.app.state.step);
    } catch {
      this.show([h("li", { role: "option", "aria-disabled": "true" }, "this step kept no graph")]);
      return;
    }
    if (this.of !== graph) {
      this.words = index(graph, this.app.store.sites);
      this.of = graph;
    }
    const node = /^[$#](\d+)$/.exec(query);
    if (node !== null && Number(node[1]) < graph.size) {
      this.show([this.option(`$${node[1]} ${graph.op(Number(node[1]))}`, "", () => this.graphView(() => this.view.chooseNode(Number(node[1]))))]);
      return;
    }
    const found = find(this.words, query);
    const members = found.reduce((sum, fold) => sum + graph.folds[fold]!.members.length, 0);
    const options = found.slice(0, MOST).map((id) => {
      const fold = graph.folds[id]!;
      const name = fold.kind === "op" || fold.kind === "input" ? [...new Set(graph.outputsOf(fold.members[0]!).map((value) => graph.text(graph.wire.values.name[value]!)).filter(Boolean))][0] : undefined;
      const sign = fold.kind === "loop" ? "↻ " : fold.kind === "decision" ? "◇ " : "";
      const expression = fold.kind === "decision" ? (this.app.store.sites.get(fold.site)?.expression ?? fold.label) : fold.label;
      const often = fold.members.length > 1 ? `  ${grouped(fold.members.length)}x` : "";
      return this.option(`${sign}${name === undefined ? "" : `${name} = `}${expression}${often}`, this.app.store.sites.where(fold.site), () => this.graphView(() => this.reveal(graph, id)));
    });
    if (options.length === 0) options.push(h("li", { role: "option", "aria-disabled": "true" }, "nothing found in this step"));
    else if (found.length > MOST) options.push(h("li", { role: "option", "aria-disabled": "true" }, `${grouped(found.length)} places, ${grouped(members)} nodes in all`));
    this.show(options);
  }

  private get view(): GraphView {
    return this.app.parts.get("graph") as GraphView;
  }

  private graphView(then: () => void): void {
    this.app.go({ view: "graph" });
    this.close();
    const wait = (): void => {
      if (this.view.shown?.step !== this.app.state.step) setTimeout(wait, 30);
      else {
        then();
        this.view.viewport.svg.focus(); // the keys go on from what was found
      }
    };
    wait();
  }

  private reveal(graph: Graph, fold: number): void {
    const open = this.view.open();
    for (const each of graph.foldsAround(graph.folds[fold]!.parent)) open.add(`f${each}`);
    this.app.go({ open: [...open], node: graph.folds[fold]!.members.length === 1 && graph.folds[fold]!.kind === "op" ? graph.folds[fold]!.members[0]! : null, box: `f${fold}` });
  }

  private option(text: string, where: string, act: () => void): HTMLElement {
    const option = h("li", { role: "option", "aria-selected": "false", onmousedown: (event: Event) => event.preventDefault(), onclick: act }, h("span", {}, text), h("span", { class: "where" }, where));
    return option;
  }

  private show(options: readonly HTMLElement[]): void {
    options.forEach((option, k) => (option.id = `found-${k}`));
    replace(this.results, ...options);
    this.results.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.at = -1;
    this.input.removeAttribute("aria-activedescendant");
  }

  private key(event: KeyboardEvent): void {
    const options = [...this.results.querySelectorAll<HTMLElement>("li:not([aria-disabled])")];
    if (event.key === "Escape") {
      this.close();
      this.input.blur();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && options.length > 0) {
      options[this.at]?.setAttribute("aria-selected", "false");
      this.at = (this.at + (event.key === "ArrowDown" ? 1 : -1) + options.length) % options.length;
      options[this.at]!.setAttribute("aria-selected", "true");
      options[this.at]!.scrollIntoView({ block: "nearest" });
      this.input.setAttribute("aria-activedescendant", options[this.at]!.id);
      event.preventDefault();
    } else if (event.key === "Enter") {
      (options[this.at] ?? options[0])?.click();
    }
  }
}
