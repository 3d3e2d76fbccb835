import type { Run } from "../../api/types";
import { useNow } from "../../app/now";
import { Link, runPath } from "../../app/router";
import { formatAgo, formatExact } from "../../text/format";

/** What a reader must know first: why the run waits, failed or lags. */
export function RunNotices({ run }: { run: Run }) {
  return (
    <div className="run-notices">
      {run.state === "queued" && <Waiting run={run} />}
      {(run.state === "failed" || run.state === "timed_out") && <Failure run={run} />}
      {run.state === "cancelled" && run.reason !== "stopped" && (
        <div className="notice">
          <strong>Cancelled</strong>
          <span>{run.reason}</span>
        </div>
      )}
      {run.late.map((late) => (
        <div className="notice warn" key={late.rank}>
          <strong>Rank {late.rank} lags</strong>
          <span>
            It is at step {late.step} on {late.host} and {late.activity}. Its stack:{" "}
            <code>lockstep flight {run.id}</code>
          </span>
        </div>
      ))}
      {run.unreachable.map((node) => (
        <div className="notice warn" key={node.node}>
          <strong>No answer</strong>
          <span>
            Node {node.node} on {node.host} has not answered since{" "}
            {formatExact(Date.parse(node.since))}.
          </span>
        </div>
      ))}
      {run.problems.map((problem) => (
        <div className="notice warn" key={problem}>
          <strong>Problem</strong>
          <span>{problem}</span>
        </div>
      ))}
    </div>
  );
}

function Waiting({ run }: { run: Run }) {
  const now = useNow();
  const start = run.expected_start ? Date.parse(run.expected_start) : null;
  return (
    <div className="notice busy">
      <strong>{run.held ? "Held" : "Queued"}</strong>
      <span className="grow">
        {run.reason || "It is about to be placed."}
        {run.blocker && (
          <>
            {" "}
            <Link className="link" href={runPath(run.blocker)}>
              Open {run.blocker}
            </Link>
          </>
        )}
      </span>
      {start !== null && (
        <span className="muted" title={formatExact(start)}>
          {start > now ? `expected to start ${formatAgo(start, now)}` : "starts soon"}
        </span>
      )}
    </div>
  );
}

function Failure({ run }: { run: Run }) {
  const error = run.attempts.findLast((attempt) => attempt.first_error)?.first_error;
  return (
    <div className={`notice failure ${run.state === "failed" ? "bad" : "warn"}`}>
      <div className="row">
        <strong>{run.state === "failed" ? "Failed" : "Timed out"}</strong>
        <span className="grow">{run.reason}</span>
        <Link className="button" href={runPath(run.id, "logs?at=error")}>
          {error ? "First error in the logs" : "Logs"}
        </Link>
      </div>
      {error && (
        <details>
          <summary>
            <code>{error.summary}</code>
            <span className="muted">
              {" "}
              first on rank {error.rank}, {error.host}
            </span>
          </summary>
          <pre>{error.lines.join("\n")}</pre>
        </details>
      )}
    </div>
  );
}
