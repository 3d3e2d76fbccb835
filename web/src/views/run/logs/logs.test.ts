import { describe, expect, it } from "vitest";
import { plainText, readAnsi } from "./ansi";
import { findRanges } from "./find";

describe("colours of lines", () => {
  it("become parts, and end where the program ends them", () => {
    expect(readAnsi("a \u001b[1;31mred\u001b[0m b")).toEqual([
      { text: "a ", style: "" },
      { text: "red", style: "ansi-1 ansi-bold" },
      { text: " b", style: "" },
    ]);
  });
  it("that the page has not leave the text", () => {
    expect(readAnsi("\u001b[38;5;208morange\u001b[m")).toEqual([{ text: "orange", style: "" }]);
    expect(plainText("\u001b[2K\u001b]0;title\u0007x")).toBe("x");
  });
  it("leave other lines as they are", () => {
    expect(readAnsi("<b>[31m</b>")).toEqual([{ text: "<b>[31m</b>", style: "" }]);
  });
});

describe("matches in a line", () => {
  it("are found whatever their case", () => {
    expect(findRanges("Loss loss", "loss")).toEqual([
      [0, 4],
      [5, 9],
    ]);
  });
  it("of a pattern that is incomplete are none", () => {
    expect(findRanges("a(b", "(")).toEqual([]);
    expect(findRanges("abc", "")).toEqual([]);
  });
  it("that are empty end", () => {
    expect(findRanges("abc", "x*")).toEqual([]);
  });
});
