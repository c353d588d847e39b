/** The page: its parts, the state they share, and the way between them. */

import { BatchView } from "./batchview";
import { DiffView } from "./diffview";
import { h, replace } from "./dom";
import { GraphView } from "./graphview";
import { RunView } from "./runview";
import { Search } from "./search";
import { SourceView } from "./sourceview";
import { fromHash, initial, toHash, type State, type View } from "./state";
import type { Store } from "./store";

/** Writes the state into the address; a page inside a notebook has none. */
export function remember(hash: string): void {
  try {
    history.replaceState(null, "", hash);
  } catch {
    // about:srcdoc: the state lives as long as the frame.
  }
}

export interface Part {
  readonly element: HTMLElement;
  /** Draws the state; `before` is what was drawn last, null the first time. */
  update(state: State, before: State | null): void | Promise<void>;
  key?(event: KeyboardEvent): boolean;
}

const NAMES: Record<View, string> = { run: "Run", source: "Source", graph: "Graph", diff: "Diff", batch: "Batch" };

export class App {
  state: State;
  readonly parts: Map<View, Part>;
  private readonly drawn = new Map<View, State>();
  private readonly tabs = new Map<View, HTMLButtonElement>();
  private readonly stepInput: HTMLInputElement;
  private readonly stepFacts = h("span", { class: "step-facts" });
  readonly search: Search;
  private readonly main = h("main", { id: "main" });
  private readonly live = h("p", { class: "unseen", role: "status" });

  constructor(readonly store: Store, root: HTMLElement) {
    const start = initial(store.head.start ?? 0);
    if (store.steps <= 1 && store.head.start !== null) start.view = "graph";
    if (store.head.contrast !== null) start.view = "diff";
    this.state = fromHash(location.hash, start, Math.max(store.steps, 1));
    this.parts = new Map<View, Part>([
      ["run", new RunView(this)],
      ["source", new SourceView(this)],
      ["graph", new GraphView(this)],
    ]);
    if (store.steps > 1 || store.head.contrast !== null) this.parts.set("diff", new DiffView(this));
    if (store.head.batches.length > 0) this.parts.set("batch", new BatchView(this));
    if (!this.parts.has(this.state.view)) this.state = { ...this.state, view: "run" };
    this.search = new Search(this);
    this.stepInput = h("input", {
      type: "number", min: 0, max: Math.max(store.steps - 1, 0), "aria-label": "step", class: "step-number",
      onchange: () => this.toStep(Number(this.stepInput.value)),
    });
    replace(root, this.header(), this.main, this.live);
    for (const [view, part] of this.parts) {
      part.element.id = `part-${view}`;
      part.element.setAttribute("role", "tabpanel");
      part.element.setAttribute("aria-labelledby", `tab-${view}`);
      this.main.append(part.element);
    }
    addEventListener("hashchange", () => this.set(fromHash(location.hash, initial(this.state.step), Math.max(store.steps, 1)), false));
    addEventListener("keydown", (event) => this.key(event));
    this.draw();
  }

  private header(): HTMLElement {
    const { meta } = this.store.head;
    const name = [meta["program"], meta["arguments"]].filter(Boolean).join(" ") || "run";
    const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "parts of the page" });
    for (const view of this.parts.keys()) {
      const tab = h("button", {
        role: "tab", id: `tab-${view}`, "aria-controls": `part-${view}`, onclick: () => this.go({ view }),
        onkeydown: (event: KeyboardEvent) => this.tabKey(event, view),
      }, NAMES[view]);
      this.tabs.set(view, tab);
      tabs.append(tab);
    }
    const one = this.store.steps <= 1;
    return h("header", {},
      h("h1", {}, h("span", { class: "brand" }, "plait"), " ", h("span", { class: "program", title: name }, name)),
      tabs,
      h("div", { class: "steps" },
        one ? null : h("button", { "aria-label": "previous step", title: "previous step (,)", onclick: () => this.toStep(this.state.step - 1) }, "‹"),
        one ? null : h("label", {}, "step ", this.stepInput),
        one ? null : h("button", { "aria-label": "next step", title: "next step (.)", onclick: () => this.toStep(this.state.step + 1) }, "›"),
        this.stepFacts,
      ),
      this.search.element,
      h("button", { class: "theme", "aria-label": "light or dark", title: "light or dark", onclick: () => this.theme() }, "◐"),
    );
  }

  private theme(): void {
    const root = document.documentElement;
    const dark = root.dataset["theme"] === "dark" || (root.dataset["theme"] === undefined && matchMedia("(prefers-color-scheme: dark)").matches);
    root.dataset["theme"] = dark ? "light" : "dark";
    for (const view of this.drawn.keys()) this.drawn.delete(view);
    this.draw();
  }

  private tabKey(event: KeyboardEvent, view: View): void {
    const order = [...this.parts.keys()];
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const next = order[(order.indexOf(view) + step + order.length) % order.length]!;
    this.go({ view: next });
    this.tabs.get(next)!.focus();
    event.preventDefault();
  }

  toStep(step: number): void {
    const last = Math.max(this.store.steps - 1, 0);
    if (!Number.isFinite(step)) return;
    this.go({ step: Math.min(Math.max(Math.round(step), 0), last) });
  }

  /** Changes a part of the state. */
  go(change: Partial<State>): void {
    this.set({ ...this.state, ...change }, true);
  }

  private set(state: State, write: boolean): void {
    if (!this.parts.has(state.view)) state = { ...state, view: "run" };
    this.state = state;
    if (write) remember(toHash(state));
    this.draw();
  }

  say(text: string): void {
    this.live.textContent = text;
  }

  private draw(): void {
    const { state } = this;
    const { head } = this.store;
    document.body.dataset["view"] = state.view; // first: it decides what scrolls
    for (const [view, part] of this.parts) {
      const on = view === state.view;
      part.element.hidden = !on;
      const tab = this.tabs.get(view)!;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      if (!on) continue;
      const before = this.drawn.get(view) ?? null;
      this.drawn.set(view, state);
      void part.update(state, before);
    }
    this.stepInput.value = String(state.step);
    const graph = this.store.graphOf(state.step);
    this.stepFacts.textContent = this.store.steps === 0 ? "" : `${head.steps.kinds[head.steps.kind[state.step]!] ?? ""}, ${graph < 0 ? "no graph kept" : `graph ${graph}`}`;
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") this.search.focus();
    else if (event.key === "," || event.key === ".") this.toStep(this.state.step + (event.key === "," ? -1 : 1));
    else if (/^[1-5]$/.test(event.key)) {
      const view = [...this.parts.keys()][Number(event.key) - 1];
      if (view === undefined) return;
      this.go({ view });
    } else if (this.parts.get(this.state.view)?.key?.(event) !== true) return;
    event.preventDefault();
  }
}
