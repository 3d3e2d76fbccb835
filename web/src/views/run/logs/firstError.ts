import type { Attempt } from "../../../api/types";
import { escapePattern } from "./find";
import { searchLog } from "./useLog";

type FirstError = NonNullable<Attempt["first_error"]>;

/** The line at which the first error of a run begins: its last match, as attempts repeat errors. */
export async function firstErrorCursor(id: string, error: FirstError): Promise<number | undefined> {
  const stop = new AbortController();
  for (const text of [error.lines.at(-1) ?? "", error.summary]) {
    if (!text.trim()) continue;
    const pattern = escapePattern(text.trim().slice(0, 200));
    const found = await searchLog(id, error.rank, pattern, 1000, stop.signal);
    const last = found.lines.at(-1);
    if (last) return last.cursor;
  }
  return undefined;
}
