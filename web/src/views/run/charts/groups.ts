export interface Group {
  group: string;
  names: string[];
}

/** Metrics by the part of their names before the first slash; those without a slash come first. */
export function groupNames(names: readonly string[], search: string): Group[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = new Map<string, string[]>();
  for (const name of names) {
    if (!words.every((word) => name.toLowerCase().includes(word))) continue;
    const group = groupOf(name);
    const list = groups.get(group);
    if (list) list.push(name);
    else groups.set(group, [name]);
  }
  return [...groups]
    .map(([group, list]) => ({
      group,
      names: list.sort((a, b) => a.localeCompare(b, "en", { numeric: true })),
    }))
    .sort((a, b) => rank(a.group) - rank(b.group) || a.group.localeCompare(b.group));
}

/** A slash before a unit of time separates no group: `tokens/s`, `train/tokens/s`. */
function groupOf(name: string): string {
  const slash = name.replace(/\/(s|sec|second|min|minute|h|hour|step)$/i, "").indexOf("/");
  return slash > 0 ? name.slice(0, slash) : "metrics";
}

/** Training first, then evaluation: the order in which a reader looks. */
function rank(group: string): number {
  const at = ["train", "metrics", "eval", "val", "test"].indexOf(group);
  return at < 0 ? 5 : at;
}
