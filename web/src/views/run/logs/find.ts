/** Where a pattern matches in a line; none if the browser cannot read the pattern. */
export function findRanges(line: string, pattern: string): [number, number][] {
  const expression = compile(pattern);
  if (!expression) return [];
  const ranges: [number, number][] = [];
  for (const match of line.matchAll(expression)) {
    if (match[0]) ranges.push([match.index, match.index + match[0].length]);
  }
  return ranges;
}

let known: [string, RegExp | null] = ["", null];

function compile(pattern: string): RegExp | null {
  if (known[0] !== pattern) {
    try {
      known = [pattern, pattern ? new RegExp(pattern, "gi") : null];
    } catch {
      known = [pattern, null];
    }
  }
  return known[1];
}

export function escapePattern(text: string): string {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, "\\$&");
}
