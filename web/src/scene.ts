/** Scene: which boxes and arrows are to be drawn for the folds that are open. No coordinates here. */

import { boxLines, type Words } from "./labels";
import type { Graph } from "./graph";
import type { PlaceWire } from "./wire";
import type { Site, Sites } from "./site";

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
}

export const SMALL = 30;
const CROWD = 150; // children of one group that are still drawn one by one
const MERGE = 4; // inputs with the same use that become one box

/** Which regions are shown when some loops show a single round. */
export function shownRegions(graph: Graph, rounds: ReadonlyMap<number, number>): Uint8Array | null {
  if (rounds.size === 0) return null;
  const { kind, index } = graph.wire.regions;
  const round = new Map<number, number>();
  for (const [fold, chosen] of rounds) {
    for (const member of graph.folds[fold]?.members ?? []) round.set(member, chosen);
  }
  const shown = new Uint8Array(kind.length);
  for (let id = 0; id < kind.length; id++) {
    const parent = graph.regionParent[id]!;
    const wanted = kind[id] === 2 ? round.get(parent) : undefined;
    shown[id] = (parent < 0 || shown[parent] === 1) && (wanted === undefined || index[id] === wanted) ? 1 : 0;
  }
  return shown;
}

/** How many members of each fold are in the rounds that are shown. */
export function countShown(graph: Graph, shown: Uint8Array | null): Int32Array {
  if (shown === null) return Int32Array.from(graph.folds, (fold) => fold.members.length);
  return Int32Array.from(graph.folds, ({ kind, members }) => {
    let count = 0;
    for (const member of members) {
      const region =
        kind === "op" ? graph.region[member]! :
        kind === "decision" ? graph.decisionRegion[member]! :
        kind === "frame" || kind === "loop" || kind === "again" ? member : -1;
      if (region < 0 || shown[region] === 1) count++;
    }
    return count;
  });
}

/** The folds to begin with: functions and single rounds around everything say nothing about the step. */
export function outermost(graph: Graph): { folds: number[]; around: number[] } {
  const around: number[] = [];
  let inside = graph.folds[0]?.children ?? [];
  for (;;) {
    const rest = inside.filter((child) => graph.folds[child]!.kind !== "input");
    const only = graph.folds[rest[0] ?? -1];
    if (rest.length !== 1 || only === undefined) return { folds: inside, around };
    const single = only.kind === "loop" && only.trips !== null && only.trips[1] === 1;
    if (!(only.kind === "frame" && only.depth === 1) && !single) return { folds: inside, around };
    around.push(only.id);
    inside = [...inside.filter((child) => child !== only.id), ...only.children];
  }
}

/** What is open at first: outer groups before inner ones, while the picture stays readable. */
export function firstOpen(graph: Graph, most = 46): Set<string> {
  const open = new Set<string>();
  const { folds } = outermost(graph);
  let shown = folds.filter((each) => graph.folds[each]!.kind !== "input").length;
  const queue = [...folds];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const fold = graph.folds[next]!;
    if (fold.kind !== "frame" && fold.kind !== "loop") continue;
    if (shown + fold.children.length > most) continue;
    shown += fold.children.length;
    open.add(`f${next}`);
    queue.push(...fold.children);
  }
  return open;
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
    this.small = graph.size < SMALL;
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

/** Whether the program acted on the value, or only took it. */
export function decides(graph: Graph, sites: Sites, fold: number): boolean {
  const { kind, members, site } = graph.folds[fold]!;
  return kind === "decision" && (graph.wire.decisions.outcome[members[0]!]! >= 0 || sites.get(site)?.test != null);
}

/** For False and True: the first fold behind the decision that stands in that arm; -1 if none ran. */
export function armStarts(graph: Graph, sites: Sites, fold: number): [number, number] {
  const found: [number, number] = [-1, -1];
  const decision = graph.folds[fold]!;
  const site = sites.get(decision.site);
  if (site?.test == null) return found;
  const [, line, column] = site.test;
  const siblings = graph.folds[decision.parent]?.children ?? [];
  for (const each of siblings) {
    const here = sites.get(graph.folds[each]!.site);
    if (here === null || here.file !== site.file) continue;
    for (const branch of here.branches) {
      if (branch[0] === line && branch[1] === column && found[branch[2] as 0 | 1] < 0) found[branch[2] as 0 | 1] = each;
    }
  }
  return found;
}

/** `y.item() > 1.5`: a whole test that compares what was read with a number of the source; null if it is another. */
export function comparison(site: Site | null): ((value: number) => boolean) | null {
  if (site?.test == null || site.test[4] !== "part") return null;
  const found = /^(.+?)\s*(<=|>=|==|!=|<|>)\s*(.+)$/.exec(site.test[3].trim());
  if (found === null) return null;
  const [, left, sign, right] = found as unknown as [string, string, string, string];
  const plain = (text: string): number => (/^-?\d[\d_]*\.?\d*(e[+-]?\d+)?$/i.test(text) ? Number(text.replaceAll("_", "")) : NaN);
  const compare: Record<string, (a: number, b: number) => boolean> = {
    "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "==": (a, b) => a === b,
    "!=": (a, b) => a !== b,
  };
  if (left === site.expression && !Number.isNaN(plain(right))) return (value) => compare[sign]!(value, plain(right));
  if (right === site.expression && !Number.isNaN(plain(left))) return (value) => compare[sign]!(plain(left), value);
  return null;
}

/** How often the test behind a decision fell False and True in the rounds that are shown. */
export function outcomesOf(maker: Words, fold: number): [number, number] {
  const { graph, options } = maker;
  const counts: [number, number] = [0, 0];
  const site = maker.sites.get(graph.folds[fold]!.site);
  let unknown = 0;
  for (const member of graph.folds[fold]!.members) {
    if (maker.shown !== null && graph.decisionRegion[member]! >= 0 && maker.shown[graph.decisionRegion[member]!] === 0) continue;
    let outcome: number = graph.wire.decisions.outcome[member]!;
    if (outcome < 0) {
      const value = options.reads[member]?.value;
      outcome = typeof value === "boolean" ? Number(value) : -1;
    }
    if (outcome >= 0) counts[(site?.test?.[4] === "negated" ? 1 - outcome : outcome) as 0 | 1]++;
    else unknown++;
  }
  const holds = comparison(site);
  if (holds !== null && unknown > 0) {
    for (const member of graph.folds[fold]!.members) {
      if (maker.shown !== null && graph.decisionRegion[member]! >= 0 && maker.shown[graph.decisionRegion[member]!] === 0) continue;
      const value = options.reads[member]?.value;
      if (typeof value !== "number") continue;
      counts[Number(holds(value)) as 0 | 1]++;
      unknown--;
    }
    return counts;
  }
  if (unknown > 0 || site?.test?.[4] === "part") {
    // A number was read, the program compared it: what ran next tells which way it went.
    const starts = armStarts(graph, maker.sites, fold);
    const ran = starts.map((each) => (each < 0 ? 0 : maker.counts[each]!)) as [number, number];
    const total = unknown + counts[0] + counts[1];
    if (ran[0] + ran[1] > 0) {
      counts[0] = starts[0] < 0 ? Math.max(total - ran[1], 0) : ran[0];
      counts[1] = starts[1] < 0 ? Math.max(total - ran[0], 0) : ran[1];
    }
  }
  return counts;
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
