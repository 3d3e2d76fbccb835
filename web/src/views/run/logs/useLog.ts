// The lines of a run: the last ones, then those that come. Earlier ones are read when asked for.
import { useCallback, useEffect, useRef, useState } from "react";
import { get } from "../../../api/client";
import { sleep, splitId } from "../../../api/queries";
import type { LogLine } from "../../../api/types";
import { isLive, watchLines } from "../../../live/live";

const tail = 3_000;
const page = 3_000;
/** Beyond this the oldest lines leave the page; the daemon has them. */
const most = 60_000;

export interface Log {
  lines: LogLine[];
  /** Progress bars and other lines without an end. */
  unfinished: LogLine[];
  /** The first line of the run is among them. */
  complete: boolean;
  /** Lines that come are added. Off after a jump into the middle. */
  following: boolean;
  loaded: boolean;
  error: unknown;
  readEarlier: () => Promise<void>;
  jumpTo: (cursor: number) => Promise<void>;
  follow: () => void;
}

type State = Pick<Log, "lines" | "unfinished" | "complete" | "loaded" | "error">;

const start: State = { lines: [], unfinished: [], complete: false, loaded: false, error: null };

export function useLog(id: string, rank: number | undefined): Log {
  const [state, setState] = useState<State>(start);
  const [following, setFollowing] = useState(true);
  const lines = useRef<LogLine[]>([]);
  lines.current = state.lines;

  useEffect(() => {
    if (!following) return;
    const stop = new AbortController();
    setState(start);
    void followLog(id, rank, stop.signal, setState);
    return () => stop.abort();
  }, [id, rank, following]);

  const readEarlier = useCallback(async () => {
    const first = lines.current[0]?.cursor;
    if (first === undefined) return;
    // Cursors grow by one a line, over all ranks.
    const after = Math.max(0, first - 1 - page);
    const answer = await read(id, { rank, after, limit: page });
    const earlier = answer.lines.filter((line) => line.cursor < first);
    setState((before) => ({
      ...before,
      lines: [...earlier, ...before.lines],
      complete: after === 0,
    }));
  }, [id, rank]);

  const jumpTo = useCallback(
    async (cursor: number) => {
      const known = lines.current;
      const has = known.some((line) => line.cursor === cursor);
      if (has) return;
      setFollowing(false);
      const after = Math.max(0, cursor - 1 - 200);
      const answer = await read(id, { rank, after, limit: page });
      setState({
        lines: answer.lines,
        unfinished: [],
        complete: after === 0,
        loaded: true,
        error: null,
      });
    },
    [id, rank],
  );

  return { ...state, following, readEarlier, jumpTo, follow: () => setFollowing(true) };
}

interface Ask {
  rank?: number;
  after?: number;
  tail?: number;
  limit?: number;
  wait?: number;
  unfinished?: number;
}

function read(id: string, query: Ask, signal?: AbortSignal) {
  return get("/api/v1/runs/{project}/{number}/logs", { path: splitId(id), query, signal });
}

async function followLog(
  id: string,
  rank: number | undefined,
  signal: AbortSignal,
  setState: (change: (before: State) => State) => void,
): Promise<void> {
  // Begun before the first reading: lines that come during a reading cause the next one.
  const watch = watchLines(id);
  let ask: Ask = { rank, tail };
  let pause = 100;
  while (!signal.aborted) {
    try {
      const answer = await read(id, ask, signal);
      const first = ask.tail !== undefined;
      setState((before) => ({
        lines:
          answer.lines.length > 0 || first
            ? [...before.lines, ...answer.lines].slice(-most)
            : before.lines,
        unfinished: answer.unfinished,
        complete: first ? answer.lines.length < tail : before.complete,
        loaded: true,
        error: null,
      }));
      if (answer.ended && answer.lines.length === 0) break;
      ask = {
        rank,
        after: answer.next,
        limit: 10_000,
        // A call that waits keeps one of the six connections that the tabs of a browser share.
        wait: isLive() ? undefined : 5,
        unfinished: answer.unfinished_version,
      };
      pause = 100;
      if (isLive() && !first && !maybeMore(answer.lines.length))
        await watch.next(answer.lines.length > 0 ? 1_000 : 20_000, signal);
    } catch (error) {
      if (signal.aborted) break;
      setState((before) => ({ ...before, error, loaded: true }));
      pause = Math.min(pause * 2, 10_000);
    }
    await sleep(pause, signal);
  }
  watch.end();
}

/** An answer has a bound of bytes, too, so a long one may have left out lines that are there. */
function maybeMore(lines: number): boolean {
  return lines >= 1_000;
}

/** The cursors of lines that match a pattern of RE2, in pages, until enough or all are found. */
export async function searchLog(
  id: string,
  rank: number | undefined,
  pattern: string,
  limit: number,
  signal: AbortSignal,
): Promise<{ lines: LogLine[]; all: boolean }> {
  const lines: LogLine[] = [];
  let after = 0;
  for (;;) {
    const answer = await get("/api/v1/runs/{project}/{number}/logs/search", {
      path: splitId(id),
      query: { pattern, ignore_case: true, rank, after },
      signal,
    });
    for (const line of answer.lines) if (line.matches !== false) lines.push(line);
    if (lines.length >= limit) return { lines: lines.slice(0, limit), all: false };
    if (answer.ended || answer.next <= after) return { lines, all: true };
    after = answer.next;
  }
}
