import type { ReactNode } from "react";
import { runningSeconds } from "../../api/running";
import type { Run } from "../../api/types";
import { useNow } from "../../app/now";
import { Link, runPath } from "../../app/router";
import { StateBadge } from "../../parts/StateBadge";
import { Time } from "../../parts/Time";
import { formatExact, formatMinutes, formatNumber, formatSeconds } from "../../text/format";
import { secondsLeft } from "./progress";
import { RunActions } from "./RunActions";
import { RunTags } from "./RunTags";

/** What a run is and how far it is, with its actions. */
export function RunHeader({ run, lost }: { run: Run; lost: boolean }) {
  return (
    <header className="run-head">
      <div className="run-title">
        <h1>
          <span className="clip run-title-name" title={run.name}>
            {run.name}
          </span>
          <span className="run-title-id">{run.id}</span>
        </h1>
        <StateBadge run={run} />
        {lost && <span className="badge warn">Not live: trying again</span>}
        <span className="grow" />
        <RunActions run={run} />
      </div>
      <Progress run={run} />
      <dl className="facts">
        <Fact label="User">{run.origin.user}</Fact>
        <Fact label="Submitted">
          <Time at={run.submitted} />
        </Fact>
        <Fact label={run.ended ? "Took" : "Running"}>
          <RunningTime run={run} />
          {run.time_limit && <span className="faint"> of {run.time_limit}</span>}
        </Fact>
        <Fact label="Devices">{devicesText(run)}</Fact>
        <Fact label="Attempts">{run.attempts.length || "–"}</Fact>
        <Fact label="Cost">
          {formatMinutes(Number(run.cost.so_far_minutes))}
          {!run.ended && (
            <span className="faint"> of {formatMinutes(Number(run.cost.at_limit_minutes))}</span>
          )}
        </Fact>
        {run.checkpoints.length > 0 && (
          <Fact label="Checkpoint">step {formatNumber(run.checkpoints.at(-1)?.step ?? 0)}</Fact>
        )}
        {run.origin.forked_from && (
          <Fact label="Forked from">
            <Link className="link" href={runPath(run.origin.forked_from)}>
              {run.origin.forked_from}
            </Link>
          </Fact>
        )}
        <RunTags run={run} />
      </dl>
    </header>
  );
}

function RunningTime({ run }: { run: Run }) {
  const now = useNow();
  if (!run.started) return "–";
  return (
    <span title={formatExact(Date.parse(run.started))}>
      {formatSeconds(runningSeconds(run, now))}
    </span>
  );
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function devicesText(run: Run): string {
  const { nodes, devices, remainder } = run.spec;
  const more = remainder ? ` + ${remainder}` : "";
  return nodes === 1 && !more ? `${devices}` : `${nodes} × ${devices}${more}`;
}

function Progress({ run }: { run: Run }) {
  const now = useNow();
  const progress = run.progress;
  if (!progress?.steps) return null;
  const share = Math.min(1, progress.step / progress.steps);
  const left = secondsLeft(run, now);
  return (
    <div className="run-progress">
      <div
        className="progress grow"
        role="progressbar"
        aria-valuenow={Math.round(share * 100)}
        aria-label="Progress"
      >
        <div style={{ width: `${share * 100}%` }} />
      </div>
      <span className="muted">
        step {formatNumber(progress.step)} of {formatNumber(progress.steps)}
        {left !== null && `, ${formatSeconds(left)} left`}
      </span>
    </div>
  );
}
