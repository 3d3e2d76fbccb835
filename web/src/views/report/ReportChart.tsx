import { useQueries } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { runQuery, useRuns } from "../../api/queries";
import type { Run } from "../../api/types";
import { localZoom, useRestedZoom } from "../../charts/zoom";
import { usePause } from "../../live/live";
import { daemonFilter, selectRuns } from "../../query/match";
import { parseQuery } from "../../query/parse";
import { CompareChart } from "../compare/CompareChart";
import { type ChartBlock, readChartBlock, runsMax } from "./chartBlock";

/** The chart of a block of a report, live while its runs log. */
export function ReportChart({ text }: { text: string }) {
  const read = useMemo(() => readChartBlock(text), [text]);
  if ("problem" in read) {
    return (
      <div className="notice bad">
        <strong>Chart</strong>
        <span>{read.problem}</span>
      </div>
    );
  }
  return read.block.query ? <ByQuery block={read.block} /> : <ByName block={read.block} />;
}

function ByName({ block }: { block: ChartBlock }) {
  const refetchInterval = usePause(10_000);
  const { runs, error } = useQueries({
    queries: block.runs.map((id) => ({ ...runQuery(id), refetchInterval })),
    combine: (results) => ({
      runs: results.flatMap(({ data }) => (data ? [data] : [])),
      error: results.find(({ isError }) => isError)?.error,
    }),
  });
  return (
    <>
      {error && (
        <div className="notice warn">
          <strong>A run is missing</strong>
          <span>{error.message}</span>
        </div>
      )}
      <Drawn block={block} runs={runs} />
    </>
  );
}

function ByQuery({ block }: { block: ChartBlock }) {
  const filter = useMemo(() => daemonFilter(block.query), [block.query]);
  const list = useRuns(filter);
  const runs = useMemo(() => {
    const logging = (list.data?.runs ?? []).filter((run) => block.metric in run.latest);
    return selectRuns(logging, parseQuery(block.query)).slice(0, runsMax);
  }, [list.data, block]);
  return <Drawn block={block} runs={runs} />;
}

function Drawn({ block, runs }: { block: ChartBlock; runs: readonly Run[] }) {
  const [zoom] = useState(localZoom);
  const restedZoom = useRestedZoom(zoom);
  const { axis, smoothing, log } = block;
  const settings = useMemo(
    () => ({ axis, smoothing, log, band: false, zoom, restedZoom, syncKey: axis }),
    [axis, smoothing, log, zoom, restedZoom],
  );
  if (runs.length === 0) return <p className="muted">No run has logged {block.metric}.</p>;
  return (
    <CompareChart name={block.metric} title={block.title} runs={runs} settings={settings} always />
  );
}
