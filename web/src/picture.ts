/** The picture: a laid-out scene as SVG. Only what is in sight is in the document. */

import { s } from "./dom";
import type { Heat } from "./heat";
import type { Layout } from "./layout/nested";
import type { Arrow, Box, Scene } from "./scene";

export const LETTER = 7.23; // width of a letter at 12 px in the usual fixed-width fonts
export const LINE = 16;
const INNER = 11; // where the words of a box begin,
const TITLE = INNER + 16; // and those of a group, behind its sign
const DENSE = 1500; // boxes in sight beyond which only outlines are drawn

export interface Size {
  w: number;
  h: number;
}

/** How large a box must be for its lines; an open group only for its header. */
export function sizeOf(box: Box): Size {
  const title = (box.lines[0] ?? "").length + (box.badge === "" ? 0 : box.badge.length + 2);
  const widest = Math.max(title, ...box.lines.slice(1).map((line) => line.length));
  const pointed = box.kind === "decision" ? 36 : box.kind === "input" ? 12 : 0;
  const lines = box.open ? 1 : box.lines.length;
  return { w: Math.ceil(Math.max(56, widest * LETTER + 22 + pointed + (box.kind === "group" || box.kind === "loop" || box.kind === "chunk" ? 18 : 0))), h: lines * LINE + 12 };
}

export interface Lit {
  selected: string | null;
  heat: Heat | null;
  /** Boxes on the trail of the one that is selected; null: no trail. */
  trail: ReadonlySet<string> | null;
  /** Boxes of the line that was clicked in the source. */
  line: ReadonlySet<string> | null;
  stops: ReadonlySet<string>;
}

export class Picture {
  readonly edges = s("g", { class: "edges", "aria-hidden": "true" });
  readonly groups = s("g", { class: "groups" });
  readonly nodes = s("g", { class: "nodes" });
  private drawn: [number, number, number, number] | null = null;

  private readonly places: ReadonlyMap<string, number>;
  private readonly headers = new Map<string, readonly Words[]>();

  constructor(readonly scene: Scene, readonly layout: Layout, readonly lit: Lit) {
    this.places = new Map(scene.boxes.map((box, k) => [box.id, k]));
  }

  /** The box that is nearest to another in the direction of an arrow key; -1 if none is there. */
  nearest(at: number, key: string): number {
    const [x, y, w] = this.rect(at);
    let best = -1;
    let least = Infinity;
    this.scene.boxes.forEach((_, k) => {
      if (k === at) return;
      const [ox, oy, ow] = this.rect(k);
      const dx = ox + ow / 2 - (x + w / 2);
      const dy = oy - y;
      const along = key === "ArrowDown" ? dy : key === "ArrowUp" ? -dy : key === "ArrowRight" ? dx : -dx;
      const across = key === "ArrowDown" || key === "ArrowUp" ? Math.abs(dx) : Math.abs(dy) * 3;
      if (along > 2 && along + 1.5 * across < least) {
        least = along + 1.5 * across;
        best = k;
      }
    });
    return best;
  }

  rect(index: number): [number, number, number, number] {
    const b = this.layout.boxes;
    return [b[4 * index]!, b[4 * index + 1]!, b[4 * index + 2]!, b[4 * index + 3]!];
  }

  /** Draws what lies in this part, unless it is drawn already. */
  show(x: number, y: number, w: number, h: number, force = false): void {
    const d = this.drawn;
    if (!force && d !== null && x >= d[0] && y >= d[1] && x + w <= d[2] && y + h <= d[3]) return;
    const [left, top, right, bottom] = (this.drawn = [x - w / 2, y - h / 2, x + 1.5 * w, y + 1.5 * h]);
    const inSight: number[] = [];
    this.scene.boxes.forEach((box, k) => {
      const [bx, by, bw, bh] = this.rect(k);
      if ((bx <= right && bx + bw >= left && by <= bottom && by + bh >= top) || box.id === this.lit.selected) inSight.push(k);
    });
    if (inSight.length > DENSE) {
      const path = inSight.map((k) => {
        const [bx, by, bw, bh] = this.rect(k);
        return `M${bx.toFixed()} ${by.toFixed()}h${bw.toFixed()}v${bh.toFixed()}h${-bw.toFixed()}z`;
      });
      this.groups.replaceChildren();
      this.nodes.replaceChildren(s("path", { class: "dense", d: path.join("") }));
      this.edges.replaceChildren();
      return;
    }
    // Open groups lie below the arrows, everything else above them.
    this.groups.replaceChildren(...inSight.filter((k) => this.scene.boxes[k]!.open).map((k) => this.box(k)));
    this.nodes.replaceChildren(...inSight.filter((k) => !this.scene.boxes[k]!.open).map((k) => this.box(k)));
    const lines: SVGElement[] = [];
    const labels: SVGElement[] = [];
    const returned = new Set<string>(); // one label is enough for all that comes back to one place
    this.scene.arrows.forEach((arrow, k) => {
      const route = this.layout.routes[k]!;
      if (route.length < 4 || !crosses(route, left, top, right, bottom)) return;
      lines.push(this.line(arrow, route));
      if (arrow.kind === "back" && returned.has(arrow.to)) return;
      if (arrow.kind === "back") returned.add(arrow.to);
      const label = this.label(arrow, route);
      if (label !== null) labels.push(label);
    });
    this.edges.replaceChildren(...lines, ...labels);
  }

  private line(arrow: Arrow, route: readonly number[]): SVGElement {
    const dim = this.lit.trail !== null && !(this.lit.trail.has(arrow.from) && this.lit.trail.has(arrow.to));
    const lit = this.lit.trail !== null && !dim;
    const near = this.lit.selected !== null && (arrow.from === this.lit.selected || arrow.to === this.lit.selected);
    const marker = arrow.kind === "back" ? "url(#tip-back)" : arrow.kind === "arm" ? "url(#tip-arm)" : arrow.kind === "ask" ? "url(#tip-ask)" : "url(#tip)";
    return s("path", {
      class: `edge ${arrow.kind}${arrow.cut === "" ? "" : " cut"}${dim ? " dim" : ""}${lit || near ? " lit" : ""}`,
      d: arrow.kind === "back" ? angular(route) : curved(route, this.headings(arrow.to)), "marker-end": marker,
      "data-from": arrow.from, "data-to": arrow.to, "data-kind": arrow.kind, "data-count": arrow.count, "data-cut": arrow.cut,
    });
  }

  /** The words in the headers of the open groups around a box: an arrow that comes in from above passes behind them. */
  private headings(id: string): readonly Words[] {
    const parent = this.scene.byId.get(id)?.parent ?? null;
    const box = parent === null ? undefined : this.scene.byId.get(parent);
    if (box === undefined) return [];
    let found = this.headers.get(box.id);
    if (found === undefined) {
      const [x, y, w] = this.rect(this.places.get(box.id)!);
      const [top, bottom] = [y + 4, y + LINE + 8];
      const title = { left: x + INNER - 3, right: x + TITLE + (box.lines[0] ?? "").length * LETTER + 3, top, bottom };
      const badge = { left: x + w - 13 - box.badge.length * LETTER, right: x + w - 7, top, bottom };
      found = [...this.headings(box.id), title, ...(box.badge === "" ? [] : [badge])];
      this.headers.set(box.id, found);
    }
    return found;
  }

  private label(arrow: Arrow, route: readonly number[]): SVGElement | null {
    const n = route.length;
    if (arrow.kind === "arm") {
      // In the gap below the decision, beside the line.
      return s("text", { class: "arrow-label arm", x: route[0]! + 5, y: route[1]! + 13 }, arrow.label);
    }
    if (arrow.cut !== "" && !QUIET.has(arrow.cut)) {
      return s("text", { class: "arrow-label cut", x: route[n - 2]! + 6, y: route[n - 1]! - 12 }, `/ ${arrow.cut}`);
    }
    if (arrow.kind === "back") {
      return s("text", { class: "arrow-label back", x: Math.min(...route.filter((_, k) => k % 2 === 0)) + 7, y: route[n - 1]! - 13 }, "next round");
    }
    return null;
  }

  private box(index: number): SVGElement {
    const box = this.scene.boxes[index]!;
    const [x, y, w, h] = this.rect(index);
    const { heat, trail, line, selected, stops } = this.lit;
    const level = box.fold < 0 ? undefined : heat?.level.get(box.fold);
    const classes = ["box", box.kind];
    if (box.open) classes.push("open");
    if (box.count === 0 && box.kind !== "ghost") classes.push("faint");
    if (box.grad) classes.push("grad");
    if (box.cut !== "") classes.push("is-cut");
    if (heat !== null) classes.push(level === undefined ? "cold" : `heat${level}`);
    if (heat?.born.has(box.fold) === true) classes.push("born");
    if (trail !== null && !trail.has(box.id)) classes.push("dim");
    if (line?.has(box.id) === true) classes.push("on-line");
    if (stops.has(box.id)) classes.push("stop");
    if (selected === box.id) classes.push("selected");
    const group = box.kind === "group" || box.kind === "loop" || box.kind === "chunk";
    const element = s("g", {
      class: classes.join(" "), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, role: "button",
      tabindex: selected === box.id ? 0 : -1, "data-id": box.id, "data-count": box.count,
      "data-kind": box.kind, "aria-expanded": group ? String(box.open) : null,
      "aria-pressed": group ? null : String(selected === box.id),
    });
    if (box.kind === "loop") element.append(s("rect", { class: "behind", x: 4, y: 4, width: w, height: h, rx: 8 }));
    element.append(outline(box.kind, w, h));
    if (box.open) element.append(s("line", { class: "rule", x1: 0, x2: w, y1: LINE + 12, y2: LINE + 12 }));
    // The title of the button says it all (and shows when one points at it); the words in it would be read twice.
    element.append(s("title", {}, this.spoken(box)));
    const words = s("g", { "aria-hidden": "true" });
    element.append(words);
    const inner = box.kind === "decision" ? 28 : box.kind === "input" ? 16 : INNER;
    const start = group ? TITLE : inner;
    if (group) words.append(s("text", { class: "sign", x: inner - 1, y: LINE + 2 }, box.open ? "▾" : "▸"));
    (box.open ? box.lines.slice(0, 1) : box.lines).forEach((text, k) => {
      const first = k === 0;
      words.append(s("text", { class: first ? "title" : text.startsWith("grad ") ? "value gradient" : text.startsWith("= ") ? "value" : "line", x: first ? start : inner, y: LINE * (k + 1) + 2 }, text));
    });
    if (box.badge !== "") words.append(s("text", { class: "badge", x: w - (box.kind === "decision" ? 24 : 10), y: LINE + 2, "text-anchor": "end" }, box.badge));
    const word = box.fold < 0 ? undefined : heat?.words.get(box.fold);
    if (word !== undefined && word !== "gradient passes") words.append(s("text", { class: "heat-word", x: w, y: -3, "text-anchor": "end" }, word));
    if (heat?.born.has(box.fold) === true) words.append(s("text", { class: "born-sign", x: 0, y: -3 }, "✕ NaN or inf begins here"));
    if (stops.has(box.id)) words.append(s("text", { class: "born-sign", x: 0, y: -3 }, "✂ gradient stops here"));
    return element;
  }

  private spoken(box: Box): string {
    const kind = box.kind === "group" ? "function" : box.kind === "op" ? "operation" : box.kind;
    const cut = box.cut === "" ? "" : `, cut: ${box.cut}`;
    return `${kind} ${box.lines.join(", ")}${box.badge === "" ? "" : `, ${box.badge}`}${cut}`;
  }
}

// Reasons that follow from what the operation is: not worth a label beside every comparison.
const QUIET = new Set(["boolean result", "integer result"]);

function outline(kind: Box["kind"], w: number, h: number): SVGElement {
  if (kind === "decision") {
    const d = Math.min(18, h / 2);
    return s("path", { class: "shape", d: `M${d} 0H${w - d}L${w} ${h / 2}L${w - d} ${h}H${d}L0 ${h / 2}Z` });
  }
  const round = kind === "input" ? Math.min(h / 2, 16) : kind === "group" || kind === "loop" || kind === "chunk" ? 8 : 5;
  return s("rect", { class: "shape", width: w, height: h, rx: round });
}

/** A place that words take. */
export interface Words {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** Straight down through rows, curves between them; a straight piece leaves out the words it would strike through. */
export function curved(route: readonly number[], words: readonly Words[] = []): string {
  let path = `M${f(route[0]!)} ${f(route[1]!)}`;
  for (let k = 2; k < route.length; k += 2) {
    const [x0, y0, x1, y1] = [route[k - 2]!, route[k - 1]!, route[k]!, route[k + 1]!];
    if (Math.abs(x0 - x1) < 0.5) {
      for (const { left, right, top, bottom } of words) {
        if (x1 >= left && x1 <= right && y0 <= top && y1 >= bottom) path += `L${f(x1)} ${f(top)}M${f(x1)} ${f(bottom)}`;
      }
      path += `L${f(x1)} ${f(y1)}`;
    } else {
      const middle = (y0 + y1) / 2;
      path += `C${f(x0)} ${f(middle)} ${f(x1)} ${f(middle)} ${f(x1)} ${f(y1)}`;
    }
  }
  return path;
}

/** Straight lines with rounded corners. */
export function angular(route: readonly number[]): string {
  let path = `M${f(route[0]!)} ${f(route[1]!)}`;
  for (let k = 2; k < route.length; k += 2) {
    const [x, y] = [route[k]!, route[k + 1]!];
    if (k + 2 >= route.length) {
      path += `L${f(x)} ${f(y)}`;
      break;
    }
    const before = toward(x, y, route[k - 2]!, route[k - 1]!);
    const after = toward(x, y, route[k + 2]!, route[k + 3]!);
    path += `L${f(before[0])} ${f(before[1])}Q${f(x)} ${f(y)} ${f(after[0])} ${f(after[1])}`;
  }
  return path;
}

function toward(x: number, y: number, tx: number, ty: number): [number, number] {
  const far = Math.hypot(tx - x, ty - y);
  const step = Math.min(6, far / 2);
  return far === 0 ? [x, y] : [x + ((tx - x) * step) / far, y + ((ty - y) * step) / far];
}

const f = (value: number): string => value.toFixed(1);

function crosses(route: readonly number[], left: number, top: number, right: number, bottom: number): boolean {
  let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let k = 0; k < route.length; k += 2) {
    x0 = Math.min(x0, route[k]!);
    x1 = Math.max(x1, route[k]!);
    y0 = Math.min(y0, route[k + 1]!);
    y1 = Math.max(y1, route[k + 1]!);
  }
  return x0 <= right && x1 >= left && y0 <= bottom && y1 >= top;
}

/** The tips of the arrows. */
export function tips(): SVGElement {
  const tip = (id: string): SVGElement =>
    s("marker", { id, viewBox: "0 0 8 8", refX: 7.5, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", class: id },
      s("path", { d: "M0 0.5L8 4L0 7.5Z" }));
  return s("defs", {}, tip("tip"), tip("tip-back"), tip("tip-arm"), tip("tip-ask"));
}
