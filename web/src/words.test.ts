import { describe, expect, it } from "vitest";
import { duration, number, plural, shorten, size, span } from "./words";

// The same examples as in graph/_notation.py: the page and the terminal say the same.
describe("words", () => {
  it("times", () => expect([850, 12_300, 3.4e9, 125e9, 7.3e12].map(duration)).toEqual(["850 ns", "12 us", "3.4 s", "2 min 5 s", "2 h 2 min"]));
  it("sizes", () => expect([512, 3_400_000, 999_960].map(size)).toEqual(["512 B", "3.4 MB", "1.0 MB"]));
  it("numbers", () => expect([0.0213456, 1, 123456.7, NaN, -Infinity, 3.2e-7].map(number)).toEqual(["0.02135", "1", "123,457", "nan", "-inf", "3.2e-7"]));
  it("bools", () => expect([number(true), number(false), number(null)]).toEqual(["True", "False", "?"]));
  it("counts", () => expect([plural(1, "step"), plural(1234, "step"), span(4, 50), span(7, 7)]).toEqual(["1 step", "1,234 steps", "4..50", "7"]));
  it("cuts", () => expect(shorten("for x in\n windows", 10)).toBe("for x in …"));
});
