import type { Host } from "../../api/types";
import { Time } from "../../parts/Time";

/** What is wrong, and since when. Nothing if nothing is. */
export function Troubles({
  hosts,
  problems,
}: {
  hosts: readonly Host[];
  problems: readonly string[];
}) {
  const bad = hosts.filter((host) => host.state !== "open" || host.unavailable);
  if (bad.length === 0 && problems.length === 0) return null;
  return (
    <div className="stack troubles">
      {problems.map((problem) => (
        <div className="notice bad" key={problem}>
          <strong>Problem</strong>
          <span>{problem}</span>
        </div>
      ))}
      {bad.map((host) => (
        <div className={`notice ${host.unavailable ? "bad" : "warn"}`} key={host.id}>
          <strong>
            {host.id} {host.unavailable ? "unavailable" : host.state}
          </strong>
          <span className="grow">{host.unavailable || host.reason}</span>
          {host.since && (
            <span className="muted">
              since <Time at={host.since} />
            </span>
          )}
        </div>
      ))}
    </div>
  );
}
