import { describe, expect, it } from "vitest";
import { fixture } from "../test/fixtures";
import { layOut } from "./layout/nested";
import { curved, sizeOf } from "./picture";
import { firstOpen } from "./folds";
import { makeScene, type Scene, type SceneOptions } from "./scene";

const { graphs, sites, reads, places } = fixture("loop");

function scene(number: number, change: Partial<SceneOptions> = {}): Scene {
  const graph = graphs[number]!;
  return makeScene(graph, sites, { open: firstOpen(graph), rounds: new Map(), held: false, read: false, reads: reads[number]!, places, batches: new Map(), from: "", ...change });
}

const titles = (made: Scene): string[] => made.boxes.map((box) => box.lines[0]!);

describe("scene", () => {
  it("shows a loop once, with its rounds and both arms", () => {
    const made = scene(0);
    const loop = made.boxes.find((box) => box.kind === "loop")!;
    expect(loop.badge).toBe("x 3");
    expect(titles(made)).toEqual(expect.arrayContaining(["xs", "getitem", "unbind", "add", "h.mean() > 0", "relu", "tanh", "detach", "sum"].map((name) => expect.stringContaining(name) as string)));
    const decision = made.boxes.find((box) => box.kind === "decision")!;
    expect(decision.lines[1]).toBe("2x True, 1x False");
    expect(made.arrows.filter((arrow) => arrow.from === decision.id && arrow.kind === "arm").map((arrow) => arrow.label)).toEqual(["True", "False"]);
  });
  it("says what a batched run holds", () => {
    const { graphs: [graph], sites: places_, head } = fixture("product");
    const node = graph!.folds.find((fold) => fold.kind === "op")!.members[0]!;
    graph!.wire.text[graph!.wire.nodes.op[node]!] = "BatchNode";
    const batch = { ...head.batches[0]!, examples: 128, groups: 1 };
    const made = makeScene(graph!, places_, {
      open: firstOpen(graph!), rounds: new Map(), held: false, read: false, reads: [], places, batches: new Map([[graph!.site[node]!, batch]]), from: "",
    });
    expect(made.boxes.map((box) => box.lines)).toContainEqual(expect.arrayContaining([expect.stringContaining("batched run"), "128 examples in 1 group"]));
  });
  it("says of which step the elements are, if not of the one that is shown", () => {
    const graph = graphs[0]!;
    const sum = graph.folds.filter((fold) => fold.kind === "op").at(-1)!.members[0]!;
    graph.samples.set(sum, [{ output: 0, what: "value", text: "7" }]);
    const lines = (from: string): string[] => scene(0, { from }).boxes.flatMap((box) => box.lines).filter((line) => line.startsWith("= 7"));
    expect([lines(""), lines(" in step 3")]).toEqual([["= 7"], ["= 7 in step 3"]]);
    graph.samples.delete(sum);
  });
  it("leads back to the next round", () => {
    expect(scene(0).arrows.filter((arrow) => arrow.kind === "back").length).toBeGreaterThan(0);
  });
  it("shows an arm of other steps as a ghost", () => {
    const ghost = scene(2).boxes.find((box) => box.kind === "ghost")!;
    expect(ghost.lines).toEqual(["h = torch.tanh(h)", "line 8, 1x in other steps"]);
  });
  it("shows one round alone, the others faint", () => {
    const graph = graphs[0]!;
    const loop = graph.folds.filter((fold) => fold.kind === "loop").at(-1)!;
    const made = scene(0, { rounds: new Map([[loop.id, 1]]) });
    expect(made.boxes.find((box) => box.lines[0]!.includes("relu"))!.count).toBe(0);
    expect(made.boxes.find((box) => box.lines[0]!.includes("tanh"))!.count).toBe(1);
    expect(made.boxes.find((box) => box.kind === "decision")!.lines[1]).toBe("False (-0.25 > 0)");
  });
  it("puts what is folded into one box", () => {
    const made = scene(0, { open: new Set() });
    expect(made.boxes.some((box) => box.kind === "decision")).toBe(false);
    const counted = made.boxes.filter((box) => box.kind === "loop" || box.kind === "group");
    expect(counted.some((box) => box.lines.join(" ").includes("3 decisions"))).toBe(true);
    for (const arrow of made.arrows) expect(made.byId.has(arrow.from) && made.byId.has(arrow.to)).toBe(true);
  });
});

describe("layout", () => {
  const made = scene(0);
  const boxes = made.boxes.map((box) => ({ id: box.id, parent: box.parent, open: box.open, ...sizeOf(box) }));
  const layout = layOut(boxes, made.arrows.map(({ from, to, kind }) => ({ from, to, kind })));
  const rect = (k: number): [number, number, number, number] => [...layout.boxes.slice(4 * k, 4 * k + 4)] as [number, number, number, number];
  it("lets no two boxes of a group overlap", () => {
    made.boxes.forEach((a, i) => made.boxes.forEach((b, k) => {
      if (k <= i || a.parent !== b.parent) return;
      const [ax, ay, aw, ah] = rect(i);
      const [bx, by, bw, bh] = rect(k);
      expect(ax + aw <= bx || bx + bw <= ax || ay + ah <= by || by + bh <= ay).toBe(true);
    }));
  });
  it("keeps what is inside inside", () => {
    made.boxes.forEach((box, k) => {
      if (box.parent === null) return;
      const [x, y, w, h] = rect(k);
      const [px, py, pw, ph] = rect(made.boxes.findIndex((each) => each.id === box.parent));
      expect(x >= px && y >= py && x + w <= px + pw + 1e-6 && y + h <= py + ph + 1e-6).toBe(true);
    });
  });
  it("leads every arrow from its box to its box, downwards unless it goes back", () => {
    made.arrows.forEach((arrow, k) => {
      const route = layout.routes[k]!;
      if (arrow.kind === "order") return;
      expect(route.length).toBeGreaterThanOrEqual(4);
      const from = rect(made.boxes.findIndex((box) => box.id === arrow.from));
      const to = rect(made.boxes.findIndex((box) => box.id === arrow.to));
      expect(route[0]).toBeGreaterThanOrEqual(from[0]);
      expect(route[0]).toBeLessThanOrEqual(from[0] + from[2]);
      expect(route[1]).toBeCloseTo(from[1] + from[3]);
      expect(route[route.length - 1]).toBeCloseTo(to[1]);
      if (arrow.kind !== "back") for (let i = 3; i < route.length; i += 2) expect(route[i]).toBeGreaterThanOrEqual(route[i - 2]! - 1e-6);
    });
  });
  it("leaves out of an arrow what would strike words through", () => {
    const words = [{ left: 0, right: 20, top: 4, bottom: 24 }];
    expect(curved([10, 0, 10, 30], words)).toBe("M10.0 0.0L10.0 4.0M10.0 24.0L10.0 30.0");
    expect(curved([30, 0, 30, 30], words)).toBe(curved([30, 0, 30, 30]));
  });
  it("takes 20,000 boxes in a row in seconds", () => {
    const many = Array.from({ length: 20_000 }, (_, k) => ({ id: `f${k}`, parent: null, open: false, w: 80, h: 40 }));
    const chain = many.slice(1).map((box, k) => ({ from: `f${k}`, to: box.id, kind: "flow" }));
    const begin = performance.now();
    expect(layOut(many, chain).boxes.length).toBe(80_000);
    expect(performance.now() - begin).toBeLessThan(5000);
  });
});
