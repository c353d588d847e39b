import { describe, expect, it } from "vitest";
import { real, starts, sums } from "./wire";

describe("wire", () => {
  it("undoes differences", () => expect([...sums([3, 2, 0, -1])]).toEqual([3, 5, 5, 4]));
  it("knows where stretches begin", () => expect([...starts([2, 0, 3])]).toEqual([0, 2, 2, 5]));
  it("reads the numbers that JSON does not know", () => {
    expect(real("nan")).toBeNaN();
    expect(real("-inf")).toBe(-Infinity);
    expect(real(null)).toBeNull();
    expect(real(1.5)).toBe(1.5);
  });
});
