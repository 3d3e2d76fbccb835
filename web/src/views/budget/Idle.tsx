import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get } from "../../api/client";
import { Link, runPath } from "../../app/router";
import { usePause } from "../../live/live";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import { Switch } from "../../parts/Switch";
import { formatMinutes } from "../../text/format";
import { idleRows } from "./idle";

const ways = [
  ["user", "owner"],
  ["project", "project"],
  ["run", "run"],
] as const;
type Way = (typeof ways)[number][0];
const most = 20;

/** Device-minutes that runs held and did not use, by owner, project or run. */
export function Idle() {
  const [by, setBy] = useState<Way>("user");
  const use = useQuery({
    queryKey: ["usage", "idle", by],
    queryFn: ({ signal }) => get("/api/v1/device-use", { query: { by }, signal }),
    refetchInterval: usePause(30_000),
  });
  const rows = idleRows(use.data?.rows ?? [], by);
  return (
    <section className="card">
      <header>
        <h2>Idle devices</h2>
        <span className="muted clip">held by runs, with a use below 5 %</span>
        <span className="grow" />
        <Switch label="Idle devices by" value={by} choices={ways} choose={setBy} />
      </header>
      {use.isError && <ErrorBox error={use.error} />}
      {use.isSuccess && rows.length === 0 ? (
        <Empty title="The use of no device is known" command={`lockstep usage --by ${by}`}>
          The agents measure it on GPUs.
        </Empty>
      ) : (
        <table className="plain">
          <tbody>
            {rows.slice(0, most).map(({ name, known, idle, share }) => (
              <tr key={name}>
                <td className="usage-name clip">
                  {by === "run" ? (
                    <Link className="link" href={runPath(name, "telemetry")}>
                      {name}
                    </Link>
                  ) : (
                    name || "–"
                  )}
                </td>
                <td>
                  <div className="usage-bar idle" title={`${formatMinutes(known)} in all`}>
                    <i style={{ width: `${share * 100}%` }} />
                  </div>
                </td>
                <td className="number usage-minutes">{formatMinutes(idle)} idle</td>
                <td className="number usage-minutes muted">{Math.round(share * 100)} %</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {rows.length > most && (
        <p className="muted more-postings">
          and {rows.length - most} more: <code>lockstep usage --by {by}</code>
        </p>
      )}
    </section>
  );
}
