import type { Run } from "../../api/types";
import { useNow } from "../../app/now";
import { formatAgo, formatExact } from "../../text/format";

/** Why a run waits or ended, in one line. A run that waits says when it starts. */
export function Reason({ run }: { run: Run }) {
  const now = useNow();
  if (run.state === "queued" && run.expected_start) {
    const start = Date.parse(run.expected_start);
    return (
      <span className="clip" title={`${run.reason}\nexpected start: ${formatExact(start)}`}>
        <span className="reason-start">
          {start > now ? `starts ${formatAgo(start, now)}` : "starts soon"}
        </span>
        <span className="muted">{run.reason}</span>
      </span>
    );
  }
  if (run.state === "running" && run.late.length > 0) {
    const late = run.late[0];
    return (
      <span className="clip reason-warn">
        rank {late?.rank} on {late?.host} lags at step {late?.step}
      </span>
    );
  }
  const bad = run.state === "failed" || run.state === "timed_out";
  return (
    <span className={`clip ${bad ? "" : "muted"}`} title={run.reason}>
      {run.reason}
    </span>
  );
}
