import { describe, expect, it } from "vitest";
import { column } from "./snippet";

describe("columns", () => {
  it("are those of Python, which counts bytes", () => {
    expect(column("é = x", 3)).toBe(2);
    expect(column("😀x", 4)).toBe(2);
    expect(column("plain", 2)).toBe(2);
    expect(column("plain", 99)).toBe(5);
    expect(column("plain", -1)).toBe(0);
  });
});
