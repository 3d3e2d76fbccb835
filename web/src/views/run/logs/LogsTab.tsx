import { useCallback, useEffect, useRef, useState } from "react";
import type { Run } from "../../../api/types";
import { useKeys } from "../../../app/keyboard";
import { setParameters, useParameter } from "../../../app/router";
import { sayError } from "../../../app/toasts";
import { Empty } from "../../../parts/Empty";
import { ErrorBox } from "../../../parts/ErrorBox";
import { firstErrorCursor } from "./firstError";
import { LogLines } from "./LogLines";
import "./logs.css";
import { useLog } from "./useLog";
import { useSearch } from "./useSearch";

/** The lines of the ranks, live, with a search over all of them and a way to the first error. */
export function LogsTab({ run }: { run: Run }) {
  const [rankText, setRank] = useParameter("rank");
  const [pattern, setPattern] = useParameter("find");
  const [at] = useParameter("at");
  const [wrap, setWrap] = useState(true);
  const rank = rankText === "" ? undefined : Number(rankText);
  const log = useLog(run.id, rank);
  const search = useSearch(run.id, rank, pattern);
  const [mark, setMark] = useState<number | null>(null);
  const input = useRef<HTMLInputElement>(null);
  const ranks = Math.max(1, run.spec.nodes * run.spec.devices + run.spec.remainder);
  const error = run.attempts.findLast((attempt) => attempt.first_error)?.first_error;
  const { jumpTo } = log;

  const jump = useCallback(
    (cursor: number | undefined) => {
      if (cursor === undefined) return;
      setMark(cursor);
      jumpTo(cursor).catch(sayError);
    },
    [jumpTo],
  );
  const jumpToError = useCallback(async () => {
    if (!error) return;
    const cursor = await firstErrorCursor(run.id, error).catch(sayError);
    if (typeof cursor === "number") jump(cursor);
  }, [run.id, error, jump]);

  const wanted = at === "error" && log.loaded;
  useEffect(() => {
    if (!wanted) return;
    setParameters({ at: "" });
    void jumpToError();
  }, [wanted, jumpToError]);

  const hit = search.lines.findIndex((line) => line.cursor === mark);
  const move = (by: number) => {
    const count = search.lines.length;
    if (count > 0) jump(search.lines[(hit + by + count) % count]?.cursor);
  };
  useKeys({
    "/": () => input.current?.select(),
    n: () => move(1),
    N: () => move(-1),
    l: () => void jumpToError(),
    Escape: () => setPattern(""),
  });

  return (
    <div className="logs">
      <div className="logs-tools">
        <input
          ref={input}
          className="input mono logs-find"
          type="search"
          placeholder="Find in all lines, as a regular expression"
          aria-label="Find in all lines"
          spellCheck={false}
          value={pattern}
          onChange={(event) => setPattern(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") move(event.shiftKey ? -1 : 1);
            if (event.key === "Escape") input.current?.blur();
          }}
        />
        {pattern && <SearchState search={search} hit={hit} move={move} />}
        <span className="grow" />
        {ranks > 1 && (
          <select
            className="input"
            aria-label="Rank"
            value={rankText}
            onChange={(event) => setRank(event.target.value)}
          >
            <option value="">All ranks</option>
            {Array.from({ length: Math.min(ranks, 1024) }, (_, each) => (
              <option key={each} value={each}>
                Rank {each}
              </option>
            ))}
          </select>
        )}
        <button type="button" className="button" aria-pressed={wrap} onClick={() => setWrap(!wrap)}>
          Wrap
        </button>
        {error && (
          <button type="button" className="button danger" onClick={() => void jumpToError()}>
            First error
          </button>
        )}
        {!log.following && (
          <button
            type="button"
            className="button"
            onClick={() => {
              setMark(null);
              log.follow();
            }}
          >
            Newest lines
          </button>
        )}
      </div>
      {log.error !== null && (
        <div className="logs-error">
          <ErrorBox error={log.error} />
        </div>
      )}
      {log.loaded && log.lines.length === 0 && log.unfinished.length === 0 ? (
        <NoLines run={run} />
      ) : (
        <LogLines
          key={`${rankText} ${wrap}`}
          log={log}
          wrap={wrap}
          ranks={ranks}
          pattern={pattern}
          mark={mark}
        />
      )}
    </div>
  );
}

function SearchState(props: {
  search: ReturnType<typeof useSearch>;
  hit: number;
  move: (by: number) => void;
}) {
  const { search, hit, move } = props;
  if (search.problem) return <span className="logs-problem clip">{search.problem}</span>;
  const count = search.lines.length;
  const place = hit >= 0 ? `${hit + 1} of ` : "";
  return (
    <span className="row muted">
      {search.busy && count === 0 ? "Searching" : `${place}${count}${search.all ? "" : "+"} lines`}
      <button
        type="button"
        className="button"
        disabled={count === 0}
        onClick={() => move(-1)}
        aria-label="Previous match"
      >
        ↑
      </button>
      <button
        type="button"
        className="button"
        disabled={count === 0}
        onClick={() => move(1)}
        aria-label="Next match"
      >
        ↓
      </button>
    </span>
  );
}

function NoLines({ run }: { run: Run }) {
  if (run.state === "queued" || run.state === "starting") {
    return (
      <Empty title="The run has not started">Its lines appear here as the ranks print them.</Empty>
    );
  }
  return (
    <Empty title="The ranks printed nothing">
      Standard output and standard error are shown here.
    </Empty>
  );
}
