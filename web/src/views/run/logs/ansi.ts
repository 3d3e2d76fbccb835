// Colours that programs print: SGR sequences of ECMA-48 as parts of a line. Other sequences vanish.

export interface Part {
  text: string;
  /** Classes of CSS, such as "ansi-1 ansi-bold". */
  style: string;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: an escape sequence begins with one.
const sequence = /\u001b(?:\[([\d;]*)([A-Za-z])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-_])/g;

export function readAnsi(line: string): Part[] {
  if (!line.includes("\u001b")) return [{ text: line, style: "" }];
  const parts: Part[] = [];
  let color = "";
  let bold = false;
  let from = 0;
  const add = (text: string) => {
    const style = [color, bold ? "ansi-bold" : ""].filter(Boolean).join(" ");
    if (text) parts.push({ text, style });
  };
  for (const match of line.matchAll(sequence)) {
    add(line.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] !== "m") continue;
    for (const code of (match[1] || "0").split(";").map(Number)) {
      if (code === 0) [color, bold] = ["", false];
      else if (code === 1) bold = true;
      else if (code === 22) bold = false;
      else if (code === 39) color = "";
      else if (code >= 30 && code <= 37) color = `ansi-${code - 30}`;
      else if (code >= 90 && code <= 97) color = `ansi-${code - 90}`;
      else if (code === 38 || code === 48) break;
    }
  }
  add(line.slice(from));
  return parts;
}

/** The text without sequences. */
export function plainText(line: string): string {
  return line.replace(sequence, "");
}
