/** This run against another, or against the other ranks of its job: what Python found, the divergence first. */

import type { App } from "./app";
import { h, type Child } from "./dom";
import { snippet } from "./snippet";
import type { ContrastWire } from "./wire";
import { grouped } from "./words";

const MOST = 400; // lines of a list

export function contrastCards(app: App, found: ContrastWire): HTMLElement[] {
  return [
    h("div", { class: "card contrast" }, h("h2", {}, found.sides.length > 0 ? "Where the runs part" : "The runs"),
      ...found.text.map((line) => h("p", {}, line)),
      h("div", { class: "sides" }, ...found.sides.map((side, index) => one(app, side, index === 0)))),
    ...found.lists.map(([title, lines]) => h("details", { class: "card" }, h("summary", {}, `${title} (${grouped(lines.length)})`),
      h("ul", {}, ...counted(lines).slice(0, MOST).map(([line, count]) => h("li", {}, h("code", {}, line), count > 1 ? ` ${grouped(count)}x` : ""))))),
  ];
}

/** The page holds the graphs of the first side only. */
function one(app: App, side: ContrastWire["sides"][number], mine: boolean): HTMLElement {
  const { site, step } = side;
  const name = [side.label, step === null ? "" : `step ${step}`].filter(Boolean).join(", ");
  const link = (text: string, act: () => void): Child => h("button", { onclick: act }, text);
  return h("div", { class: "side" }, h("h3", {}, name), h("p", {}, side.text),
    site === null ? null : h("p", { class: "hint" }, `${site.name}:${site.line}`),
    site === null ? null : snippet(side.source, { line: site.line, endLine: site.end_line, column: site.column, endColumn: site.end_column, expression: site.expression }),
    !mine || site === null || site.file < 0 ? null : h("div", { class: "row" },
      step === null ? null : link("in the graph", () => app.go({ view: "graph", step, file: site.file, line: site.line, node: null, box: null })),
      link("in the source", () => app.go({ view: "source", file: site.file, line: site.line }))));
}

/** Equal lines once, with how often they stand there. */
function counted(lines: readonly string[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const line of lines) counts.set(line, (counts.get(line) ?? 0) + 1);
  return [...counts];
}
