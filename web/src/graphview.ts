/** The part that shows the graph of a step: the picture, what can be done with it, and the panel beside it. */

import { remember, type App, type Part } from "./app";
import { carried } from "./carry";
import { h, replace } from "./dom";
import { save, standalone, toPng } from "./export";
import { reach, reachedNodes, type Reach } from "./gradient";
import type { Graph } from "./graph";
import { heatOf, type Heat } from "./heat";
import { layOutAside } from "./layout/client";
import { Panel } from "./panel";
import { Picture, sizeOf } from "./picture";
import { firstOpen, roundsOf } from "./folds";
import { makeScene, type Reading, type Scene } from "./scene";
import { toHash, type Overlay, type State } from "./state";
import { Told } from "./store";
import type { StatsWire } from "./wire";
import { Viewport } from "./viewport";

export interface Shown {
  graph: Graph;
  number: number;
  step: number;
  reads: (Reading | null)[];
  stats: StatsWire | null;
  reached: Uint8Array;
}

export class GraphView implements Part {
  readonly element = h("section", { class: "graph-part" });
  readonly viewport = new Viewport();
  private readonly told = h("p", { class: "told", hidden: true });
  private readonly bar = h("div", { class: "bar" });
  private readonly legend = h("p", { class: "legend" });
  private readonly around = h("p", { class: "around" });
  private readonly panel: Panel;
  shown: Shown | null = null;
  scene: Scene | null = null;
  private picture: Picture | null = null;
  private sceneKey = "";
  private turn = 0;
  private readonly overlay: HTMLSelectElement;
  private readonly held: HTMLInputElement;
  private readonly read: HTMLInputElement;

  constructor(readonly app: App) {
    this.panel = new Panel(this);
    this.overlay = h("select", { "aria-label": "overlay", onchange: () => app.go({ overlay: this.overlay.value as Overlay }) },
      h("option", { value: "none" }, "no overlay"), h("option", { value: "gradient" }, "backward: gradients"),
      h("option", { value: "time" }, "time"), h("option", { value: "saved" }, "saved for backward"));
    this.held = h("input", { type: "checkbox", onchange: () => app.go({ held: this.held.checked }) });
    this.read = h("input", { type: "checkbox", onchange: () => app.go({ read: this.read.checked }) });
    const tool = (name: string, title: string, act: () => void): HTMLElement => h("button", { title, onclick: act }, name);
    this.bar.append(
      this.overlay, h("label", { class: "check" }, this.held, " parameters"),
      h("label", { class: "check", title: "values that were only read, nothing decided" }, this.read, " reads"),
      tool("open all", "open every function and loop", () => this.openAll()),
      tool("fold", "fold every function and loop", () => app.go({ open: [], rounds: new Map() })),
      tool("reset", "open what was open at first", () => app.go({ open: null, rounds: new Map(), node: null, box: null, trail: null })),
      h("span", { class: "space" }),
      tool("+", "zoom in (+)", () => this.viewport.zoom(1.25)), tool("−", "zoom out (-)", () => this.viewport.zoom(0.8)),
      tool("fit", "fit all into the window (0)", () => this.viewport.fit(true)),
      tool("SVG", "save this picture as SVG", () => this.exportSvg()), tool("PNG", "save this picture as PNG", () => void this.exportPng()),
    );
    this.element.append(
      this.bar, this.around, h("div", { class: "graph-body" },
        h("div", { class: "canvas" }, this.viewport.svg, this.viewport.map, this.legend, this.told), this.panel.element));
    this.viewport.svg.addEventListener("click", (event) => this.click(event));
    this.viewport.svg.addEventListener("dblclick", (event) => {
      const id = idOf(event);
      if (id !== null) this.toggle(id);
    });
  }

  /** What is open now: what the state says, or what is open at first. */
  open(): Set<string> {
    const { state } = this.app;
    return state.open === null ? (this.shown === null ? new Set() : firstOpen(this.shown.graph)) : new Set(state.open);
  }

  async update(state: State, before: State | null): Promise<void> {
    const turn = ++this.turn;
    this.overlay.value = state.overlay;
    this.held.checked = state.held;
    this.read.checked = state.read;
    try {
      if (this.shown === null || this.shown.step !== state.step) {
        const last = this.shown;
        const graph = await this.app.store.stepGraph(state.step);
        const [reads, stats] = await Promise.all([this.app.store.readings(state.step), this.app.store.stats(state.step)]);
        if (turn !== this.turn) return;
        const number = this.app.store.graphOf(state.step);
        this.shown = { graph, number, step: state.step, reads, stats, reached: reachedNodes(graph) };
        this.sceneKey = "";
        if (last !== null && last.number !== number) {
          this.app.state = state = carried(this.app.state, last.graph, graph);
          remember(toHash(state));
        }
      }
    } catch (error) {
      if (turn !== this.turn) return;
      this.tell(error instanceof Told ? error.message : String(error));
      return;
    }
    this.told.hidden = true;
    this.element.classList.remove("nothing");
    await this.draw(state, before, turn);
  }

  private tell(sentence: string): void {
    this.shown = null;
    this.scene = null;
    this.told.textContent = sentence;
    this.told.hidden = false;
    this.element.classList.add("nothing"); // to open, fold or save
    replace(this.panel.element);
  }

  private async draw(state: State, before: State | null, turn: number): Promise<void> {
    const { graph, reads, stats, reached } = this.shown!;
    let open = this.open();
    if (state.node !== null && state.node < graph.size) {
      // A node that is asked for is in sight: what is around it opens, loops show its round.
      const fold = graph.foldOfNode[state.node]!;
      const missing = graph.foldsAround(graph.folds[fold]!.parent).map((each) => `f${each}`).filter((id) => !open.has(id));
      if (missing.length > 0 && (before === null || before.node !== state.node)) open = new Set([...open, ...missing]);
      if (missing.length > 0) this.app.state = state = { ...state, open: [...open] };
    }
    const key = JSON.stringify([state.step, [...open].sort(), [...state.rounds], state.held, state.read]);
    const fresh = key !== this.sceneKey;
    if (fresh) {
      const scene = makeScene(graph, this.app.store.sites, {
        open, rounds: state.rounds, held: state.held, read: state.read, reads, places: this.app.store.placeOfSite,
        batches: this.app.store.batchesOf(state.step),
        from: this.app.store.numbersFrom(state.step),
      });
      const flat = scene.boxes.map((box) => ({ id: box.id, parent: box.parent, open: box.open, ...sizeOf(box) }));
      const arrows = scene.arrows.map(({ from, to, kind }) => ({ from, to, kind }));
      const layout = await layOutAside(flat, arrows);
      if (turn !== this.turn) return;
      const anchor = this.anchor();
      this.scene = scene;
      this.picture = new Picture(scene, layout, { selected: null, heat: null, trail: null, line: null, stops: new Set() });
      this.sceneKey = key;
      this.element.dataset["boxes"] = String(scene.boxes.length);
      this.around.hidden = scene.around.length === 0;
      this.around.textContent = scene.around.length === 0 ? "" : `in ${scene.around.map((fold) => graph.folds[fold]!.label).join(" › ")}`;
      this.light(state, stats, reached);
      const first = before === null || before.step !== state.step || anchor === null;
      this.viewport.show(this.picture, !first);
      if (!first) this.hold(anchor);
    } else {
      this.light(state, stats, reached);
      this.viewport.show(this.picture!, before !== null);
    }
    const selected = this.selected(state);
    if (selected !== null) {
      const index = this.scene!.boxes.findIndex((box) => box.id === selected);
      if (index >= 0) this.viewport.reveal(index);
    }
    this.panel.update(state);
    document.body.dataset["drawn"] = `${state.step}`;
  }

  /** The box that stays where it is while others open: the one that is selected or was clicked. */
  private anchor(): [string, number, number] | null {
    const id = this.lastTouched;
    if (this.picture === null || id === null) return this.picture === null ? null : ["", 0, 0];
    const index = this.picture.scene.boxes.findIndex((box) => box.id === id);
    if (index < 0) return ["", 0, 0];
    const [x, y] = this.picture.rect(index);
    return [id, x, y];
  }

  private hold([id, x, y]: [string, number, number]): void {
    const index = this.picture!.scene.boxes.findIndex((box) => box.id === id);
    if (index < 0) return;
    const [nx, ny] = this.picture!.rect(index);
    this.viewport.pan((x - nx) * this.viewport.scale, (y - ny) * this.viewport.scale);
  }

  private lastTouched: string | null = null;

  /** The box that stands for what is chosen. */
  selected(state: State): string | null {
    if (this.scene === null || this.shown === null) return null;
    if (state.node !== null && state.node < this.shown.graph.size) return this.boxOfNode(state.node);
    return state.box !== null && this.scene.byId.has(state.box) ? state.box : null;
  }

  boxOfNode(node: number): string | null {
    return this.boxOfFold(this.shown!.graph.foldOfNode[node]!);
  }

  boxOfFold(fold: number): string | null {
    for (const each of this.shown!.graph.foldsAround(fold)) if (this.scene!.byId.has(`f${each}`)) return `f${each}`;
    return null;
  }

  /** The node that is looked at: the one chosen, or the first of the chosen fold. */
  node(state: State): number | null {
    if (state.node !== null) return state.node;
    const fold = state.box?.startsWith("f") === true ? this.shown?.graph.folds[Number(state.box.slice(1))] : undefined;
    return fold !== undefined && (fold.kind === "op" || fold.kind === "input") ? fold.members[0]! : null;
  }

  reach(state: State): Reach | null {
    const node = this.node(state);
    return node === null || this.shown === null ? null : reach(this.shown.graph, node, this.shown.reached);
  }

  private light(state: State, stats: StatsWire | null, reached: Uint8Array): void {
    const { graph } = this.shown!;
    const heat: Heat | null = heatOf(graph, state.overlay, stats, reached);
    let trail: Set<string> | null = null;
    const node = this.node(state);
    if (state.trail !== null && node !== null) {
      const fold = graph.folds[graph.foldOfNode[node]!]!;
      const begin = state.node !== null ? [node] : [...fold.members];
      const flags = graph.closure(begin, state.trail);
      trail = new Set<string>();
      const own = this.selected(state);
      if (own !== null) this.withGroups(own, trail);
      const folds = new Set<number>();
      for (let k = 0; k < graph.size; k++) if (flags[k] === 1) folds.add(graph.foldOfNode[k]!);
      for (const each of folds) this.withGroups(this.boxOfFold(each), trail);
    }
    let line: Set<string> | null = null;
    if (state.line !== null && state.file !== null) {
      line = new Set();
      for (const fold of graph.folds) {
        const site = this.app.store.sites.get(fold.site);
        if (site === null || site.file !== state.file || site.line > state.line || site.endLine < state.line) continue;
        const box = this.boxOfFold(fold.id);
        if (box !== null) line.add(box);
      }
    }
    const stops = new Set<string>();
    if (state.overlay === "gradient") for (const stop of this.reach(state)?.stops ?? []) {
      const box = this.boxOfNode(stop.node);
      if (box !== null) stops.add(box);
    }
    Object.assign(this.picture!.lit, { selected: this.selected(state), heat, trail, line, stops });
    this.legend.textContent = heat?.legend ?? "";
  }

  private withGroups(id: string | null, into: Set<string>): void {
    for (let box = id === null ? undefined : this.scene!.byId.get(id); box !== undefined; box = box.parent === null ? undefined : this.scene!.byId.get(box.parent)) into.add(box.id);
  }

  // -- acting -------------------------------------------------------------------------------------------------

  private click(event: Event): void {
    if (this.viewport.wasDragged) return;
    const id = idOf(event);
    if (id === null) {
      this.app.go({ node: null, box: null, trail: null, line: null });
      return;
    }
    const onSign = (event.target as Element).matches(".sign");
    if (onSign || this.app.state.box === id && this.isGroup(id)) this.toggle(id);
    else this.choose(id);
  }

  private isGroup(id: string): boolean {
    const kind = this.scene?.byId.get(id)?.kind;
    return kind === "group" || kind === "loop" || kind === "chunk";
  }

  choose(id: string): void {
    this.lastTouched = id;
    const box = this.scene?.byId.get(id);
    const fold = this.shown?.graph.folds[box?.fold ?? -1];
    const single = fold !== undefined && (fold.kind === "op" || fold.kind === "input") && fold.members.length === 1 ? fold.members[0]! : null;
    this.app.go({ box: id, node: single, line: null });
    this.focus();
  }

  chooseNode(node: number): void {
    const { graph } = this.shown!;
    const fold = graph.folds[graph.foldOfNode[node]!]!;
    this.lastTouched = null;
    this.app.go({ view: "graph", node, box: `f${fold.id}`, rounds: fold.members.length > 1 ? roundsOf(graph, node) : this.app.state.rounds });
  }

  setRound(fold: number, round: number | null): void {
    const rounds = new Map(this.app.state.rounds);
    if (round === null) rounds.delete(fold);
    else rounds.set(fold, round);
    this.lastTouched = `f${fold}`;
    const open = this.open();
    open.add(`f${fold}`);
    // A single node of another round is not in the picture any more.
    this.app.go({ rounds, node: null, open: [...open] });
  }

  toggle(id: string): void {
    if (!this.isGroup(id)) return;
    const open = this.open();
    if (!open.delete(id)) open.add(id);
    this.lastTouched = id;
    this.app.go({ open: [...open], box: id, node: null });
    this.app.say(open.has(id) ? "opened" : "folded");
    this.focus();
  }

  private openAll(): void {
    const { graph } = this.shown!;
    const open = graph.folds.filter((fold) => fold.kind === "frame" || fold.kind === "loop").map((fold) => `f${fold.id}`);
    this.app.go({ open });
  }

  private focus(): void {
    queueMicrotask(() => requestAnimationFrame(() => {
      const box = this.viewport.svg.querySelector<SVGGElement>(".box.selected");
      (box ?? this.viewport.svg).focus({ preventScroll: true });
    }));
  }

  key(event: KeyboardEvent): boolean {
    const { key } = event;
    const state = this.app.state;
    const selected = this.selected(state);
    if (key === "+" || key === "=") this.viewport.zoom(1.25);
    else if (key === "-") this.viewport.zoom(0.8);
    else if (key === "0") this.viewport.fit(true);
    else if (key === "Escape") this.app.go({ node: null, box: null, trail: null, line: null });
    else if ((key === "Enter" || key === " ") && selected !== null && this.viewport.svg.contains(event.target as Node)) this.toggle(selected);
    else if (key === "a" || key === "d") {
      const trail = key === "a" ? "ancestors" : "descendants";
      this.app.go({ trail: state.trail === trail ? null : trail });
    } else if (key === "[" || key === "]") return this.nextRound(key === "]" ? 1 : -1);
    else if (key.startsWith("Arrow") && this.viewport.svg.contains(event.target as Node)) this.walk(key);
    else return false;
    return true;
  }

  private nextRound(by: number): boolean {
    const loop = this.panel.loop();
    if (loop === null || loop.trips === null) return false;
    const now = this.app.state.rounds.get(loop.id);
    const last = loop.trips[1] - 1;
    const next = now === undefined ? (by > 0 ? 0 : last) : now + by;
    this.setRound(loop.id, next < 0 || next > last ? null : next);
    return true;
  }

  /** To the nearest box in a direction. */
  private walk(key: string): void {
    const scene = this.scene!;
    const at = scene.boxes.findIndex((box) => box.id === this.selected(this.app.state));
    if (at < 0) {
      if (scene.boxes[0] !== undefined) this.choose(scene.boxes[0].id);
      return;
    }
    const best = this.picture!.nearest(at, key);
    if (best >= 0) this.choose(scene.boxes[best]!.id);
  }

  private exportSvg(): void {
    if (this.picture !== null) save(`${this.fileName()}.svg`, new Blob([standalone(this.picture)], { type: "image/svg+xml" }));
  }

  private async exportPng(): Promise<void> {
    if (this.picture === null) return;
    const { w, h: tall } = this.picture.layout;
    save(`${this.fileName()}.png`, await toPng(standalone(this.picture), w + 48, tall + 48));
  }

  private fileName(): string {
    return `${(this.app.store.head.meta["program"] ?? "graph").replace(/\W+/g, "-")}-step-${this.shown?.step ?? 0}`;
  }
}

function idOf(event: Event): string | null {
  return (event.target as Element).closest(".box")?.getAttribute("data-id") ?? null;
}
