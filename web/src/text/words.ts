// Words of a command as text, quoted as a shell does, and back.
import { shellWord } from "../app/command";

export function joinWords(words: readonly string[]): string {
  return words.map((word) => (word === "" ? "''" : shellWord(word))).join(" ");
}

/** Null: a quote has no end. Variables are not replaced. */
export function splitWords(text: string): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  let quote = "";
  for (let index = 0; index < text.length; index += 1) {
    const letter = text[index] ?? "";
    if (quote) {
      if (letter === quote) quote = "";
      else if (letter === "\\" && quote === '"') word += text[++index] ?? "";
      else word += letter;
    } else if (letter === "'" || letter === '"') {
      quote = letter;
      word ??= "";
    } else if (letter === "\\") {
      word = (word ?? "") + (text[++index] ?? "");
    } else if (/\s/.test(letter)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? "") + letter;
    }
  }
  if (word !== null) words.push(word);
  return quote ? null : words;
}
