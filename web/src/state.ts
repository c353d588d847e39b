/** What is shown, kept in the address: a link leads back to it, and a reload changes nothing. */

export type View = "run" | "source" | "graph" | "diff" | "batch";
export type Overlay = "none" | "gradient" | "time" | "saved";

export interface State {
  view: View;
  step: number;
  /** The node that is looked at; null if none or a whole fold is. */
  node: number | null;
  /** The box that is looked at: `f12`, `g12:1`; null if none. */
  box: string | null;
  /** What is open; null: as it is at first. */
  open: readonly string[] | null;
  rounds: ReadonlyMap<number, number>;
  held: boolean;
  read: boolean;
  overlay: Overlay;
  /** Ancestors or descendants of the node are lit. */
  trail: "ancestors" | "descendants" | null;
  file: number | null;
  line: number | null;
  /** The other step of a comparison. */
  other: number | null;
  /** The batched run that is looked at, and the group in it. */
  batch: number | null;
  group: number | null;
}

const VIEWS: readonly View[] = ["run", "source", "graph", "diff", "batch"];

export function initial(step: number): State {
  return {
    view: "run", step, node: null, box: null, open: null, rounds: new Map(), held: false, read: false, overlay: "none", trail: null,
    file: null, line: null, other: null, batch: null, group: null,
  };
}

/** The state as it stands behind the `#` of an address. */
export function toHash(state: State): string {
  const parts = [`view=${state.view}`, `step=${state.step}`];
  if (state.node !== null) parts.push(`node=${state.node}`);
  else if (state.box !== null) parts.push(`box=${encodeURIComponent(state.box)}`);
  if (state.open !== null) parts.push(`open=${state.open.join(".")}`);
  if (state.rounds.size > 0) parts.push(`rounds=${[...state.rounds].map(([fold, round]) => `${fold}:${round}`).join(".")}`);
  if (state.held) parts.push("held=1");
  if (state.read) parts.push("read=1");
  if (state.overlay !== "none") parts.push(`overlay=${state.overlay}`);
  if (state.trail !== null) parts.push(`trail=${state.trail}`);
  if (state.file !== null) parts.push(`file=${state.file}`);
  if (state.line !== null) parts.push(`line=${state.line}`);
  if (state.other !== null) parts.push(`other=${state.other}`);
  if (state.batch !== null) parts.push(`batch=${state.batch}`);
  if (state.group !== null) parts.push(`group=${state.group}`);
  return `#${parts.join("&")}`;
}

/** The state of an address; what it does not say, or says wrongly, is as in `base`. */
export function fromHash(hash: string, base: State, steps: number): State {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const whole = (name: string, below = Infinity): number | null => {
    const text = fields.get(name);
    return text !== null && /^\d{1,9}$/.test(text) && Number(text) < below ? Number(text) : null;
  };
  const state: State = { ...base, step: whole("step", steps) ?? base.step };
  const view = fields.get("view");
  state.node = whole("node");
  if (VIEWS.includes(view as View)) state.view = view as View;
  const box = fields.get("box");
  state.box = box !== null && /^[fgc]\d+(:[01])?$/.test(box) ? box : null;
  if (view === null && (state.node !== null || state.box !== null)) state.view = "graph";
  const open = fields.get("open");
  state.open = open === null ? null : open.split(".").filter((each) => /^[fc]\d+$/.test(each));
  state.rounds = new Map(
    (fields.get("rounds") ?? "").split(".").map((each) => each.split(":").map(Number))
      .filter((pair): pair is [number, number] => pair.length === 2 && pair.every((each) => Number.isInteger(each) && each >= 0)),
  );
  state.held = fields.get("held") === "1";
  state.read = fields.get("read") === "1";
  const overlay = fields.get("overlay");
  state.overlay = overlay === "gradient" || overlay === "time" || overlay === "saved" ? overlay : "none";
  const trail = fields.get("trail");
  state.trail = trail === "ancestors" || trail === "descendants" ? trail : null;
  state.file = whole("file");
  state.line = whole("line");
  state.other = whole("other", steps);
  state.batch = whole("batch");
  state.group = whole("group");
  return state;
}
