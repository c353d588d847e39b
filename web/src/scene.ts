/** Scene: which boxes and arrows are to be drawn for the folds that are open. No coordinates here. */

import { countShown, outermost, shownRegions } from "./folds";
import type { Graph } from "./graph";
import { boxLines } from "./labels";
import { armStarts, decides, outcomesOf } from "./outcomes";
import type { Site, Sites } from "./site";
import type { BatchWire, PlaceWire } from "./wire";

export type BoxKind =
  | "group" | "loop" | "op" | "input" | "decision" | "read" | "backward" | "event" | "mode" | "again" | "ghost" | "chunk";

export interface Box {
  id: string;
  kind: BoxKind;
  /** The fold it draws; -1 for chunks and ghosts. */
  fold: number;
  parent: string | null;
  lines: readonly string[];
  badge: string;
  open: boolean;
  /** What of it is in the rounds that are shown; 0 draws it faint. */
  count: number;
  grad: boolean;
  cut: string;
}

export type ArrowKind = "flow" | "back" | "ask" | "arm" | "order";

export interface Arrow {
  from: string;
  to: string;
  kind: ArrowKind;
  label: string;
  /** Why no gradient comes back along it; empty if it may. */
  cut: string;
  count: number;
}

export interface Scene {
  boxes: Box[];
  arrows: Arrow[];
  byId: Map<string, Box>;
  /** The functions and loops around everything, which are not drawn. */
  around: number[];
}

export interface Reading {
  value: number | boolean | null;
  left: number | null;
  right: number | null;
}

export interface SceneOptions {
  open: ReadonlySet<string>;
  /** Loop fold -> the round that is shown alone. */
  rounds: ReadonlyMap<number, number>;
  /** Parameters and buffers as boxes. */
  held: boolean;
  /** Values that were only read, as for printing, as boxes. */
  read: boolean;
  reads: readonly (Reading | null)[];
  places: ReadonlyMap<number, PlaceWire>;
  /** The batched runs of the step, by the site that called them. */
  batches: ReadonlyMap<number, BatchWire>;
  /** Where the numbers in the boxes are from, if not from the step itself: ` in step 3`, which built the graph first. */
  from: string;
}

export const SMALL = 30;
const FEW_HELD = 4; // parameters that a small graph still shows as boxes: their arrows cross everything
const CROWD = 150; // children of one group that are still drawn one by one
const MERGE = 4; // inputs with the same use that become one box

function heldCount(graph: Graph): number {
  let count = 0;
  for (let node = 0; node < graph.size; node++) if (graph.isHeld(node)) count++;
  return count;
}

class Maker {
  readonly boxes: Box[] = [];
  readonly byId = new Map<string, Box>();
  readonly arrows = new Map<string, Arrow>();
  /** Fold -> the box that stands for it: its own or that of a closed group around it. */
  readonly boxOf: (string | null)[];
  readonly shown: Uint8Array | null;
  readonly counts: Int32Array;
  readonly small: boolean;

  constructor(readonly graph: Graph, readonly sites: Sites, readonly options: SceneOptions) {
    this.boxOf = new Array<string | null>(graph.folds.length).fill(null);
    this.shown = shownRegions(graph, options.rounds);
    this.counts = countShown(graph, this.shown);
    this.small = graph.size < SMALL && heldCount(graph) <= FEW_HELD;
  }

  add(box: Box): void {
    this.boxes.push(box);
    this.byId.set(box.id, box);
  }

  place(folds: readonly number[], parent: string | null): void {
    // Inputs first, whenever they came: what uses them stands below.
    const isInput = (fold: number): number => (this.graph.folds[fold]!.kind === "input" ? 0 : 1);
    const drawn = folds.filter((each) => this.isDrawn(each)).sort((a, b) => isInput(a) - isInput(b));
    if (drawn.length > CROWD) {
      this.crowd(drawn, parent);
      return;
    }
    for (const each of drawn) this.one(each, parent);
  }

  private isDrawn(fold: number): boolean {
    const found = this.graph.folds[fold]!;
    if (found.kind === "decision" && !this.options.read) return decides(this.graph, this.sites, fold);
    if (found.kind !== "input") return true;
    return this.options.held || this.small || !this.graph.isHeld(found.members[0]!);
  }

  /** Long stretches without any structure are put into chunks, which open like groups. */
  private crowd(folds: number[], parent: string | null): void {
    const step = Math.max(100, Math.ceil(folds.length / 100));
    for (let start = 0; start < folds.length; start += step) {
      const part = folds.slice(start, start + step);
      const id = `c${part[0]!}`;
      const open = this.options.open.has(id);
      const lines = [`${start + 1} to ${start + part.length} of ${folds.length}`];
      this.add({ id, kind: "chunk", fold: -1, parent, lines, badge: "", open, count: part.length, grad: false, cut: "" });
      if (open) this.place(part, id);
      else for (const each of part) this.stand(each, id);
    }
  }

  /** `box` stands for the fold and for all that is inside. */
  private stand(fold: number, box: string): void {
    const stack = [fold];
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      this.boxOf[next] = box;
      stack.push(...this.graph.folds[next]!.children);
    }
  }

  private one(number: number, parent: string | null): void {
    const fold = this.graph.folds[number]!;
    const id = `f${number}`;
    const isGroup = fold.kind === "frame" || fold.kind === "loop";
    const open = isGroup && fold.children.length > 0 && this.options.open.has(id);
    const words = boxLines(this, number, open);
    this.add({
      id, kind: words.kind, fold: number, parent, lines: words.lines, badge: words.badge, open,
      count: this.counts[number]!, grad: words.grad, cut: words.cut,
    });
    if (open) {
      this.boxOf[number] = id;
      this.place(fold.children, id);
    } else this.stand(number, id);
  }

  arrow(from: string | null, to: string | null, kind: ArrowKind, label: string, cut = "", count = 1): void {
    if (from === null || to === null || from === to) return;
    const key = `${from}>${to}>${kind}`;
    const known = this.arrows.get(key);
    if (known !== undefined) {
      known.count += count;
      if (cut !== "" && known.cut === "") known.cut = cut;
      return;
    }
    this.arrows.set(key, { from, to, kind, label, cut, count });
  }

  flow(): void {
    const { graph, shown, boxOf } = this;
    const folds = graph.folds.length;
    const seen = new Map<number, Arrow | null>();
    for (let node = 0; node < graph.size; node++) {
      const target = graph.foldOfNode[node]!;
      const to = boxOf[target] ?? null;
      if (to === null) continue;
      if (shown !== null && graph.region[node]! >= 0 && shown[graph.region[node]!] === 0) continue;
      const begin = graph.firstInput[node]!;
      const end = graph.firstInput[node + 1]!;
      for (let k = begin; k < end; k++) {
        const value = graph.inputValue[k]!;
        const source = graph.foldOfNode[graph.valueNode[value]!]!;
        const key = source * folds + target;
        const known = seen.get(key);
        if (known !== undefined) {
          if (known !== null) known.count++;
          continue;
        }
        const from = boxOf[source] ?? null;
        if (from === null || from === to) {
          seen.set(key, null);
          continue;
        }
        const back = source >= target && !graph.isInput(graph.valueNode[value]!);
        const cut = graph.cut(node) !== "" && graph.type(value).grad ? graph.cut(node) : "";
        this.arrow(from, to, back ? "back" : "flow", graph.typeText(value), cut);
        seen.set(key, this.arrows.get(`${from}>${to}>${back ? "back" : "flow"}`)!);
      }
    }
  }

  decisions(): void {
    const { graph } = this;
    for (const fold of graph.folds) {
      if (fold.kind !== "decision") continue;
      const to = this.boxOf[fold.id] ?? null;
      for (const member of fold.members) {
        const from = this.boxOf[graph.foldOfNode[graph.valueNode[graph.decisionValue[member]!]!]!] ?? null;
        this.arrow(from, to, "ask", "");
      }
      const site = this.sites.get(fold.site);
      if (site?.test != null && to === `f${fold.id}`) this.arms(fold.id, site);
    }
  }

  /** Leads from a decision to what ran first in each of its arms; an arm that did not run is a ghost. */
  private arms(fold: number, site: Site): void {
    const box = this.byId.get(`f${fold}`)!;
    const taken = armStarts(this.graph, this.sites, fold);
    const test = site.test!;
    if (taken[0] < 0 && taken[1] < 0) return; // nothing with tensors hangs on it
    for (const arm of [1, 0]) {
      const first = taken[arm]!;
      const name = arm === 1 ? "True" : "False";
      const to = first < 0 ? null : (this.boxOf[first] ?? null);
      if (to !== null) {
        this.arrow(box.id, to, "arm", name);
        continue;
      }
      const text = arm === 1 ? test[6] : test[8];
      const line = arm === 1 ? test[5] : test[7];
      if (text === null || (first >= 0 && to === null)) continue;
      const place = this.options.places.get(site.id);
      const often = place?.arms.find((each) => each[0] === arm)?.[1] ?? 0;
      const here = outcomesOf(this, fold)[arm]!;
      if (here > 0) continue; // it ran and did nothing with tensors
      const id = `g${fold}:${arm}`;
      const lines = [text, often > 0 ? `line ${line}, ${often.toLocaleString("en-US")}x in other steps` : `line ${line}, in no step`];
      const ghost: Box = {
        id, kind: "ghost", fold: -1, parent: box.parent, lines, badge: "", open: false, count: 0, grad: false, cut: "",
      };
      this.boxes.splice(this.boxes.indexOf(box) + 1, 0, ghost);
      this.byId.set(id, ghost);
      this.arrow(box.id, id, "arm", name);
    }
  }

  passes(): void {
    const { graph } = this;
    for (const fold of graph.folds) {
      if (fold.kind !== "backward") continue;
      for (const member of fold.members) {
        for (const root of graph.wire.backwards[member]![2]) {
          this.arrow(this.boxOf[graph.foldOfNode[graph.valueNode[root]!]!] ?? null, this.boxOf[fold.id] ?? null, "ask", "");
        }
      }
    }
  }

  /** Many inputs that go to the same places become one box. */
  merge(): void {
    const uses = new Map<string, string[]>();
    for (const box of this.boxes) {
      if (box.kind === "input" && !this.graph.isHeld(this.graph.folds[box.fold]!.members[0]!)) uses.set(box.id, []);
    }
    for (const arrow of this.arrows.values()) uses.get(arrow.from)?.push(arrow.to);
    const groups = new Map<string, string[]>();
    for (const [id, targets] of uses) {
      const key = `${this.graph.op(this.graph.folds[this.byId.get(id)!.fold]!.members[0]!)}|${[...new Set(targets)].sort().join()}`;
      groups.set(key, [...(groups.get(key) ?? []), id]);
    }
    for (const ids of groups.values()) {
      if (ids.length < MERGE) continue;
      const first = this.byId.get(ids[0]!)!;
      first.badge = `${ids.length}x`;
      first.lines = [`${first.lines[0]!}, …`, ...first.lines.slice(1)];
      first.count = ids.length;
      const gone = new Set(ids.slice(1));
      for (const id of gone) {
        this.boxOf[this.byId.get(id)!.fold] = first.id;
        this.byId.delete(id);
      }
      this.boxes.splice(0, this.boxes.length, ...this.boxes.filter((box) => !gone.has(box.id)));
      for (const [key, arrow] of [...this.arrows]) if (gone.has(arrow.from)) this.arrows.delete(key);
    }
  }

  /** Inputs that only hidden things use are hidden as well. */
  prune(): void {
    if (this.options.held && this.options.read) return;
    const linked = new Set([...this.arrows.values()].map((arrow) => arrow.from));
    const gone = this.boxes.filter((box) => box.kind === "input" && !linked.has(box.id));
    if (gone.length === this.boxes.length) return;
    for (const box of gone) {
      this.byId.delete(box.id);
      this.boxOf[box.fold] = null;
    }
    this.boxes.splice(0, this.boxes.length, ...this.boxes.filter((box) => this.byId.has(box.id)));
  }

  /** Things without arrows stay where the program had them: below the last that has one. */
  order(): void {
    const linked = new Set<string>();
    for (const arrow of this.arrows.values()) linked.add(arrow.to).add(arrow.from);
    const last = new Map<string | null, string>();
    for (const box of this.boxes) {
      if (box.kind === "input" || box.kind === "ghost") continue;
      const before = last.get(box.parent);
      const alone = !linked.has(box.id) && !box.open;
      const late = box.kind === "backward" || box.kind === "event" || box.kind === "mode" || box.kind === "read";
      if (before !== undefined && (alone || late)) this.arrow(before, box.id, "order", "");
      last.set(box.parent, box.id);
    }
  }
}

export function makeScene(graph: Graph, sites: Sites, options: SceneOptions): Scene {
  const maker = new Maker(graph, sites, options);
  const { folds, around } = outermost(graph);
  maker.place(folds, null);
  maker.flow();
  maker.decisions();
  maker.passes();
  maker.merge();
  maker.prune();
  maker.order();
  return { boxes: maker.boxes, arrows: [...maker.arrows.values()], byId: maker.byId, around };
}
