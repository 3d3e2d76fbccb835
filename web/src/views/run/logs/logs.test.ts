import { describe, expect, it } from "vitest";
import { plainText, readAnsi } from "./ansi";
import { findRanges } from "./find";
import { followsEnd } from "./follow";

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

describe("a box of lines at its end", () => {
  const end = { top: 600, height: 1_000, view: 400 };
  it("follows further lines although the browser tells of its scroll after they came", () => {
    expect(followsEnd(true, { ...end, top: 500, height: 900 }, { ...end, height: 1_200 })).toBe(
      true,
    );
  });
  it("is left by a scroll up, also while lines come", () => {
    expect(followsEnd(true, end, { ...end, top: 500 })).toBe(false);
    expect(followsEnd(true, end, { ...end, top: 500, height: 1_200 })).toBe(false);
  });
  it("is followed again once the reader is back at the end", () => {
    expect(followsEnd(false, { ...end, top: 100 }, { ...end, top: 200 })).toBe(false);
    expect(followsEnd(false, { ...end, top: 100 }, { ...end, top: 590 })).toBe(true);
  });
  it("is not left when lines above shrink or leave", () => {
    const shrunk = { ...end, top: 480, height: 950 };
    expect(followsEnd(true, { ...end, height: 1_070 }, shrunk)).toBe(true);
  });
});
