/** A few lines of source with one expression marked. */

import { h, type Child } from "./dom";
import type { Site } from "./site";

/** Columns of Python count bytes of UTF-8; those of the page count what JavaScript calls characters. */
export function column(line: string, bytes: number): number {
  if (bytes < 0) return 0;
  let seen = 0;
  let at = 0;
  for (const letter of line) {
    if (seen >= bytes) break;
    const code = letter.codePointAt(0)!;
    seen += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    at += letter.length;
  }
  return at;
}

/** The line with the expression of a site in a `mark`. */
export function marked(text: string, number: number, site: Pick<Site, "line" | "endLine" | "column" | "endColumn">): Child[] {
  if (number < site.line || number > site.endLine || site.column < 0) return [text];
  const from = number === site.line ? column(text, site.column) : text.length - text.trimStart().length;
  const to = number === site.endLine ? column(text, site.endColumn) : text.length;
  return [text.slice(0, from), h("mark", {}, text.slice(from, to)), text.slice(to)];
}

export function snippet(source: string | null, site: Pick<Site, "line" | "endLine" | "column" | "endColumn" | "expression">): HTMLElement {
  if (source === null) return h("pre", { class: "snippet" }, h("mark", {}, site.expression || "(the source was not kept)"));
  const lines = source.split("\n");
  const from = Math.max(site.line - 2, 1);
  const to = Math.min(site.endLine + 2, lines.length);
  const shown = lines.slice(from - 1, to);
  const indent = Math.min(...shown.filter((line) => line.trim() !== "").map((line) => line.length - line.trimStart().length), 99);
  return h("pre", { class: "snippet", tabindex: 0, "aria-label": "source" },
    ...shown.flatMap((line, k) => {
      const parts = marked(line, from + k, site);
      if (typeof parts[0] === "string") parts[0] = parts[0].slice(Math.min(indent, parts[0].length));
      return [h("span", { class: "number" }, `${from + k}`.padStart(4)), "  ", ...parts, "\n"];
    }));
}
