import { type UseQueryResult, useQueries } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { compareMax, runQuery } from "../../api/queries";
import type { Run } from "../../api/types";
import { useViewCommand } from "../../app/command";
import { useKeys } from "../../app/keyboard";
import { Link, navigate, runPath, useParameter } from "../../app/router";
import { useViewTitle } from "../../app/title";
import { ChartTools } from "../../charts/ChartTools";
import { axisNames } from "../../charts/lines";
import { useChartSettings } from "../../charts/useChartSettings";
import { usePause } from "../../live/live";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import { StateBadge } from "../../parts/StateBadge";
import { groupNames } from "../run/charts/groups";
import "./compare.css";
import { CompareChart } from "./CompareChart";
import { Differences } from "./Differences";
import { Parallel } from "./Parallel";
import { Scatter } from "./Scatter";

/** Several runs: the differences of their settings first, then their curves overlaid. */
export default function CompareView() {
  const [text, setText] = useParameter("runs");
  const asked = useMemo(() => [...new Set(text.split(",").filter(isId))], [text]);
  const ids = useMemo(() => asked.slice(0, compareMax), [asked]);
  const settings = useChartSettings();
  const [search, setSearch] = useState("");
  useKeys({ Escape: () => navigate("/") });
  useViewTitle("Compare");
  useViewCommand(`lockstep compare ${ids.length >= 2 ? ids.join(" ") : "RUN RUN"}`);
  const refetchInterval = usePause(5_000);
  const { runs, error } = useQueries({
    queries: ids.map((id) => ({ ...runQuery(id), refetchInterval })),
    combine,
  });
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.latest)))].sort().join("\n");
  const groups = useMemo(() => groupNames(names ? names.split("\n") : [], search), [names, search]);
  if (ids.length < 2) {
    return (
      <Empty title="Choose two runs or more" command="lockstep compare demo/1 demo/2">
        Select rows in the table of runs with x, then press c.
      </Empty>
    );
  }
  return (
    <div className="view">
      <div className="view-head">
        <h1>Compare {ids.length} runs</h1>
        {asked.length > compareMax && (
          <span className="muted">
            the first {compareMax} of {asked.length}
          </span>
        )}
        <span className="grow" />
        <Link className="button" href={`/reports/new?runs=${ids.join(",")}`}>
          Write a report
        </Link>
      </div>
      {error && <ErrorBox error={error} />}
      <ul className="compare-runs">
        {runs.map((run, index) => (
          <li key={run.id} className={`c${index % 10}`}>
            <i className={`swatch c${index % 10}`} />
            <Link className="run-name clip" href={runPath(run.id)} title={run.name}>
              {run.name}
            </Link>
            <span className="faint">{run.id}</span>
            <StateBadge run={run} />
            <button
              type="button"
              className="command"
              aria-label={`Leave out ${run.id}`}
              onClick={() => setText(ids.filter((id) => id !== run.id).join(","))}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
      <Differences runs={runs} />
      {runs.length >= 2 && (
        <div className="compare-plots">
          <Parallel runs={runs} />
          <Scatter runs={runs} />
        </div>
      )}
      <div className="compare-tools">
        <ChartTools
          settings={settings}
          metrics={axisNames(names ? names.split("\n") : [])}
          search={{ text: search, set: setSearch }}
        />
      </div>
      {groups.map(({ group, names: list }) => (
        <details className="chart-section" key={group} open>
          <summary>
            {group}
            <span className="faint">{list.length}</span>
          </summary>
          <div className="chart-grid">
            {list.slice(0, 60).map((name) => (
              <CompareChart key={name} name={name} runs={runs} settings={settings} />
            ))}
          </div>
        </details>
      ))}
    </div>
  );
}

/** The same list while no run changes, so that plots are not made again. */
function combine(results: UseQueryResult<Run>[]) {
  return {
    runs: results.flatMap((result) => (result.data ? [result.data] : [])),
    error: results.find((result) => result.isError)?.error,
  };
}

function isId(text: string): boolean {
  return /^[A-Za-z0-9][\w.-]*\/\d+$/.test(text);
}
