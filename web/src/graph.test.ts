import { describe, expect, it } from "vitest";
import { fixture } from "../test/fixtures";
import { reach, reachedNodes } from "./gradient";
import { find, index } from "./search";
import { divergence, placesOf } from "./compare";

describe("graph", () => {
  const [small] = fixture("product").graphs;
  it("reads nodes, names, types and edges", () => {
    expect(small!.size).toBe(4);
    expect([0, 1, 2, 3].map((node) => small!.op(node))).toEqual(["leaf", "leaf", "mul", "sum"]);
    expect([...small!.inputs(2)].map((value) => small!.valueName(value))).toEqual(["x", "y"]);
    expect(small!.typeText(small!.firstOutput[3]!)).toBe("f32[]");
    expect([...small!.users(0)]).toEqual([2]);
    expect(small!.saved(2).map((item) => [item.name, item.bytes, small!.valueName(item.value)])).toEqual([["self", 12, "x"], ["other", 12, "y"]]);
  });
  it("walks both ways", () => {
    expect([...small!.closure([3], "ancestors")]).toEqual([1, 1, 1, 0]);
    expect([...small!.closure([0], "descendants")]).toEqual([0, 0, 1, 1]);
  });
});

describe("does gradient reach this", () => {
  it("says yes and on which way", () => {
    const [graph] = fixture("product").graphs;
    const found = reach(graph!, 0);
    expect(found.reached).toBe(true);
    expect(found.path).toEqual([0, 2, 3]);
    expect([...reachedNodes(graph!)]).toEqual([1, 1, 1, 1]);
  });
  it("says where it stops", () => {
    const [graph] = fixture("cut").graphs;
    const found = reach(graph!, 1);
    expect(found.reached).toBe(false);
    expect(found.stops).toEqual([{ node: 2, why: "detach" }]);
    expect(found.sentence).toContain("detach");
    expect(reach(graph!, 0).reached).toBe(true);
  });
});

describe("search", () => {
  const { graphs, sites } = fixture("loop");
  const words = index(graphs[0]!, sites);
  it("finds operations, names, predicates and lines", () => {
    const labels = (query: string): string[] => find(words, query).map((fold) => graphs[0]!.folds[fold]!.label);
    expect(labels("relu")).toContain("relu");
    expect(labels("h.mean() > 0")).toContain("bool");
    expect(labels("model.py:9")).toEqual(["detach"]);
    expect(labels("no such thing")).toEqual([]);
  });
});

describe("two steps", () => {
  const { graphs, sites, reads } = fixture("loop");
  it("part at the first decision that fell differently", () => {
    const found = divergence(graphs[0]!, graphs[2]!, reads[0]!, reads[2]!, sites)!;
    expect(found.sentence).toBe("The decision in model.py:5 fell differently: here h.mean() > 0 is False (-0.25 > 0), there h.mean() > 0 is True (0.25 > 0).");
  });
  it("part where a loop goes on", () => {
    expect(divergence(graphs[2]!, graphs[1]!, reads[2]!, reads[1]!, sites)!.sentence).toContain("goes on here and ends there");
  });
  it("do not part from themselves", () => expect(divergence(graphs[0]!, graphs[0]!, reads[0]!, reads[0]!, sites)).toBeNull());
  it("are counted place by place", () => {
    const tanh = placesOf(graphs[0]!, graphs[2]!, sites).find((place) => place.name === "tanh")!;
    expect(tanh.counts).toEqual([1, 0]);
  });
});
