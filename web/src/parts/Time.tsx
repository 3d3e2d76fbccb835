import { useNow } from "../app/now";
import { formatAgo, formatExact, formatSeconds } from "../text/format";

/** A time relative to now, with the exact one in the reader's zone on hover. */
export function Time({ at }: { at: string | null | undefined }) {
  const now = useNow();
  if (!at) return <span className="faint">–</span>;
  const time = Date.parse(at);
  return (
    <time dateTime={at} title={formatExact(time)}>
      {formatAgo(time, now)}
    </time>
  );
}

/** The time between two moments; without an end it goes on. */
export function Elapsed({ from, to }: { from: string | null; to: string | null }) {
  const now = useNow();
  if (!from) return <span className="faint">–</span>;
  const end = to ? Date.parse(to) : now;
  return (
    <span title={formatExact(Date.parse(from))}>
      {formatSeconds((end - Date.parse(from)) / 1000)}
    </span>
  );
}
