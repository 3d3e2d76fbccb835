import { expect, it } from "vitest";
import { joinWords, splitWords } from "./words";

it("words survive the way to text and back", () => {
  const words = ["python", "t.py", "--name", "it's two", '{"a": 1}', "", "a\\b", "$HOME", "x\ny"];
  expect(splitWords(joinWords(words))).toEqual(words);
});

it("blanks and line ends separate words", () => {
  expect(splitWords("  a\n  b\t'c d' ")).toEqual(["a", "b", "c d"]);
  expect(splitWords("")).toEqual([]);
});

it("a quote without an end is no command", () => {
  expect(splitWords("python 'train.py")).toBeNull();
});
