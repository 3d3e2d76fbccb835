import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import type { LogLine } from "../../../api/types";
import { sayError } from "../../../app/toasts";
import { readAnsi } from "./ansi";
import { findRanges } from "./find";
import { followsEnd, type Scroll } from "./follow";
import type { Log } from "./useLog";

interface Props {
  log: Log;
  wrap: boolean;
  ranks: number;
  pattern: string;
  /** The line to scroll to, by its cursor. */
  mark: number | null;
}

const lineHeight = 19;

/** The lines in view. At the end it stays at the end, until the reader scrolls up. */
export function LogLines({ log, wrap, ranks, pattern, mark }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [atEnd, setAtEnd] = useState(true);
  const scroll = useRef<Scroll>({ top: 0, height: 0, view: 0 });
  const lines = useMemo(() => [...log.lines, ...log.unfinished], [log.lines, log.unfinished]);
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => lineHeight,
    overscan: 30,
    getItemKey: (index) => lineKey(lines[index], index, log.lines.length),
  });
  const last = lines.length - 1;
  useEffect(() => {
    if (atEnd && log.following && mark === null && last >= 0) {
      virtual.scrollToIndex(last, { align: "end" });
    }
  }, [atEnd, last, log.following, mark, virtual]);
  const markIndex = mark === null ? -1 : lines.findIndex((line) => line.cursor === mark);
  useEffect(() => {
    if (markIndex >= 0) virtual.scrollToIndex(markIndex, { align: "center" });
  }, [markIndex, virtual]);

  function onScroll() {
    const element = box.current;
    if (!element) return;
    const { scrollTop: top, scrollHeight: height, clientHeight: view } = element;
    const now = { top, height, view };
    const before = scroll.current;
    scroll.current = now;
    setAtEnd((followed) => followsEnd(followed, before, now));
  }

  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keys.
    <div className="log-box" ref={box} onScroll={onScroll} tabIndex={0} role="log" aria-live="off">
      {!log.complete && log.loaded && (
        <button
          type="button"
          className="button plain"
          onClick={() => log.readEarlier().catch(sayError)}
        >
          Show earlier lines
        </button>
      )}
      <div className="log-body" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const line = lines[item.index];
          if (!line) return null;
          return (
            <div
              key={item.key}
              data-index={item.index}
              ref={wrap ? virtual.measureElement : undefined}
              className={`log-line ${wrap ? "wrap" : ""} ${item.index === markIndex ? "mark" : ""}`}
              style={{ transform: `translateY(${item.start}px)` }}
            >
              <Line line={line} ranks={ranks} pattern={pattern} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

function lineKey(line: LogLine | undefined, index: number, finished: number): string | number {
  return !line || index >= finished ? `unfinished ${line?.rank}` : line.cursor;
}

const Line = memo(function Line({
  line,
  ranks,
  pattern,
}: {
  line: LogLine;
  ranks: number;
  pattern: string;
}) {
  return (
    <>
      {ranks > 1 && <span className={`log-rank c${line.rank % 10}`}>{line.rank}</span>}
      <span className={`log-text ${isError(line.text) ? "error" : ""}`}>
        {textOf(line.text, pattern)}
      </span>
    </>
  );
});

/** Lines that end a traceback, or that a logger marked as errors. */
function isError(text: string): boolean {
  return /^(\S+: )?([A-Za-z_.]*(Error|Exception|Interrupt)\b)|\b(ERROR|FATAL|CRITICAL)\b/.test(
    text,
  );
}

function textOf(text: string, pattern: string): ReactNode {
  let key = 0;
  return readAnsi(text).map((part) => {
    const ranges = pattern ? findRanges(part.text, pattern) : [];
    const pieces: ReactNode[] = [];
    let from = 0;
    for (const [begin, end] of ranges) {
      pieces.push(
        part.text.slice(from, begin),
        <mark key={key++}>{part.text.slice(begin, end)}</mark>,
      );
      from = end;
    }
    pieces.push(part.text.slice(from));
    return (
      <span key={key++} className={part.style || undefined}>
        {pieces}
      </span>
    );
  });
}
