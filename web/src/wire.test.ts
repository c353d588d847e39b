import { describe, expect, it } from "vitest";
import { deflateSync } from "node:zlib";
import { real, starts, sums, unpack } from "./wire";

describe("wire", () => {
  it("undoes differences", () => expect([...sums([3, 2, 0, -1])]).toEqual([3, 5, 5, 4]));
  it("sums a stretch alone", () => expect([...sums([9, 3, 2, 9], 1, 3)]).toEqual([3, 5]));
  it("knows where stretches begin", () => expect([...starts([2, 0, 3])]).toEqual([0, 2, 2, 5]));
  it("reads a chunk, its columns as typed arrays", async () => {
    const written = Buffer.from(JSON.stringify({ nodes: { op: { type: "b", at: 0, count: 3 }, site: { type: "h", at: 3, count: 1 } }, text: ["é"] }));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(written.length);
    const whole = Buffer.concat([length, written, Buffer.from([1, 255, 2, 44, 1])]);
    expect(await unpack(deflateSync(whole).toString("base64"))).toEqual({
      nodes: { op: Int8Array.of(1, -1, 2), site: Int16Array.of(300) }, text: ["é"],
    });
  });
  it("reads the numbers that JSON does not know", () => {
    expect(real("nan")).toBeNaN();
    expect(real("-inf")).toBe(-Infinity);
    expect(real(null)).toBeNull();
    expect(real(1.5)).toBe(1.5);
  });
});
