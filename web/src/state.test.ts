import { describe, expect, it } from "vitest";
import { fromHash, initial, toHash, type State } from "./state";

describe("state", () => {
  it("comes back from its address", () => {
    const state: State = {
      ...initial(0), view: "graph", step: 12, node: 40, box: null, open: ["f3", "c7"], rounds: new Map([[3, 2]]), held: true, read: true,
      overlay: "gradient", trail: "ancestors", file: 1, line: 9, other: 3, batch: 1, group: 5,
    };
    expect(fromHash(toHash(state), initial(0), 100)).toEqual(state);
  });
  it("is led to a node by a short link", () => {
    expect(fromHash("#step=12&node=40", initial(0), 100)).toMatchObject({ view: "graph", step: 12, node: 40 });
  });
  it("ignores what it does not know or cannot be", () => {
    const state = fromHash("#step=1000&view=no&box=<b>&open=x.f1&overlay=no&rounds=a:b.2:1", initial(4), 100);
    expect(state).toMatchObject({ view: "run", step: 4, box: null, overlay: "none", open: ["f1"] });
    expect([...state.rounds]).toEqual([[2, 1]]);
  });
});
