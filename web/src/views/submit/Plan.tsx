import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { post } from "../../api/client";
import { Link, runPath } from "../../app/router";
import { ErrorBox } from "../../parts/ErrorBox";
import { Time } from "../../parts/Time";
import { formatMinutes } from "../../text/format";
import type { SubmittedSpec } from "./spec";

/** Where and when the run would start, and what it would cost. Nothing is submitted. */
export function Plan({ spec }: { spec: SubmittedSpec | string }) {
  const settled = useSettled(JSON.stringify(spec));
  const plan = useQuery({
    queryKey: ["plan", settled],
    queryFn: () => post("/api/v1/plan", { spec: JSON.parse(settled), origin: {} } as never),
    enabled: typeof spec !== "string" && settled === JSON.stringify(spec),
    refetchInterval: 10_000,
    placeholderData: (before) => before,
  });
  if (typeof spec === "string") return <p className="muted plan">{spec}</p>;
  if (plan.isError) return <ErrorBox error={plan.error} />;
  if (!plan.data) return <p className="muted plan">Planning …</p>;
  const { data } = plan;
  const available = data.available_minutes === null ? null : Number(data.available_minutes);
  const cost = Number(data.cost_minutes);
  const engineChooses = data.places[0]?.host === "";
  return (
    <dl className="plan pairs-list" aria-live="polite">
      <dt>Start</dt>
      <dd>
        {engineChooses ? (
          <span className="badge">goes to the queue of its engine</span>
        ) : data.starts ? (
          <span className="badge good">at once</span>
        ) : data.expected_start ? (
          <Time at={data.expected_start} />
        ) : (
          <span className="badge warn">no start is known</span>
        )}
        {data.latest_start && !data.starts && (
          <span className="muted">
            {" "}
            at the latest <Time at={data.latest_start} />
          </span>
        )}
      </dd>
      {data.reason && (
        <>
          <dt>Waits</dt>
          <dd>
            {data.reason}
            {data.runs_ahead > 0 && (
              <span className="muted">
                {" "}
                ({data.runs_ahead === 1 ? "1 stands" : `${data.runs_ahead} stand`} before it)
              </span>
            )}
          </dd>
        </>
      )}
      {data.places.length > 0 && (
        <>
          <dt>Where</dt>
          <dd className="row members">
            {engineChooses && "on hosts that its engine chooses"}
            {data.places
              .filter((place) => place.host !== "")
              .map((place) => (
                <span className="tag" key={place.host}>
                  {place.host}: {place.devices.length}{" "}
                  {place.devices.length === 1 ? "device" : "devices"}
                </span>
              ))}
          </dd>
        </>
      )}
      {data.preempted.length > 0 && (
        <>
          <dt>Makes way</dt>
          <dd className="row members">
            {data.preempted.map(({ run }) => (
              <Link key={run} href={runPath(run)}>
                {run}
              </Link>
            ))}
          </dd>
        </>
      )}
      <dt>Cost</dt>
      <dd>
        at most {formatMinutes(cost)}
        {available !== null && (
          <span className={available < cost ? "plan-over" : "muted"}>
            {" "}
            of {formatMinutes(available)} that its project has
          </span>
        )}
      </dd>
    </dl>
  );
}

/** The text once it has not changed for a moment: not each letter is a call. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), 300);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}
