import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get } from "../../api/client";
import { usePause } from "../../live/live";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import { Switch } from "../../parts/Switch";
import { formatMinutes } from "../../text/format";

const ways = ["project", "user", "month"] as const;

/** Device time that runs have used, by project, user or month. */
export function Usage() {
  const [by, setBy] = useState<(typeof ways)[number]>("project");
  const usage = useQuery({
    queryKey: ["usage", by],
    queryFn: ({ signal }) => get("/api/v1/usage", { query: { by }, signal }),
    refetchInterval: usePause(30_000),
  });
  const rows = [...(usage.data?.rows ?? [])];
  const most = Math.max(1e-9, ...rows.map((row) => Number(row.used_minutes)));
  return (
    <section className="card">
      <header>
        <h2>Use of devices</h2>
        <span className="grow" />
        <Switch
          label="Group by"
          value={by}
          choices={ways.map((way) => [way, way])}
          choose={setBy}
        />
      </header>
      {usage.isError && <ErrorBox error={usage.error} />}
      {usage.isSuccess && rows.length === 0 ? (
        <Empty title="No device was used yet" />
      ) : (
        <table className="plain">
          <tbody>
            {rows.map((row) => {
              const name = row[by] || "–";
              return (
                <tr key={`${row.project}${row.user}${row.month}${row.kind}`}>
                  <td className="usage-name">{name}</td>
                  <td>
                    <div className="usage-bar">
                      <i style={{ width: `${(Number(row.used_minutes) / most) * 100}%` }} />
                    </div>
                  </td>
                  <td className="number usage-minutes">
                    {formatMinutes(Number(row.used_minutes))}
                  </td>
                  <td className="number usage-minutes muted">
                    {row.attempts} {row.attempts === 1 ? "attempt" : "attempts"}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
    </section>
  );
}
