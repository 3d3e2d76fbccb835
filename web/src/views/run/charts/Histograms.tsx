import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo, useState } from "react";
import { hasHistogramsQuery, histogramsQuery } from "../../../api/histograms";
import type { Run } from "../../../api/types";
import { useVisible } from "../../../charts/useVisible";
import { ErrorBox } from "../../../parts/ErrorBox";
import { isActive } from "../../../parts/StateBadge";
import { formatNumber } from "../../../text/format";
import {
  type Bins,
  fullness,
  type HistogramSeries,
  histogramsByName,
  mapPaths,
  type Scale,
  scaleOf,
  side,
  stepAt,
  stepPlace,
} from "./histograms";
import "./histograms.css";

interface Props {
  run: Run;
  /** Words that names must have. */
  search: string;
  /** Shown if there are none. */
  otherwise?: ReactNode;
}

/** The histograms that ranks have logged, a card for each name. */
export function Histograms({ run, search, otherwise }: Props) {
  const any = useQuery(hasHistogramsQuery(run.id, isActive(run.state)));
  if (any.isError) return <ErrorBox error={any.error} />;
  if (!any.data) return otherwise;
  return (
    <details className="chart-section" open>
      <summary>Histograms</summary>
      <Cards run={run} search={search} />
    </details>
  );
}

/** They are read once they are in view. */
function Cards({ run, search }: { run: Run; search: string }) {
  const [element, visible] = useVisible<HTMLDivElement>();
  const query = useInfiniteQuery({
    ...histogramsQuery(run.id, isActive(run.state)),
    enabled: visible,
  });
  const list = useMemo(
    () => query.data?.pages.flatMap((page) => page.histograms) ?? [],
    [query.data],
  );
  const names = useMemo(() => [...histogramsByName(list, search)], [list, search]);
  return (
    <div ref={element}>
      {query.isError && <ErrorBox error={query.error} />}
      {query.isPending && <div className="chart-waiting" />}
      <div className="chart-grid">
        {names.map(([name, ranks]) => (
          <HistogramCard key={name} name={name} ranks={ranks} />
        ))}
      </div>
      {query.isSuccess && names.length === 0 && (
        <p className="muted chart-none">No histogram has “{search}” in its name.</p>
      )}
      {query.hasNextPage && (
        <button
          type="button"
          className="button chart-more"
          disabled={query.isFetching}
          onClick={() => void query.fetchNextPage()}
        >
          Show more: these are the first {formatNumber(list.length)} histograms
        </button>
      )}
    </div>
  );
}

/** All steps as a map, and the bars of one step: the newest, or the one below the pointer. */
function HistogramCard({ name, ranks }: { name: string; ranks: HistogramSeries[] }) {
  const [rank, setRank] = useState(ranks[0]?.rank ?? 0);
  const [chosen, setChosen] = useState<number | null>(null);
  const [hover, setHover] = useState<number | null>(null);
  const steps = (ranks.find((each) => each.rank === rank) ?? ranks[0])?.steps ?? [];
  const scale = useMemo(() => scaleOf(steps), [steps]);
  const at = Math.min(hover ?? chosen ?? steps.length - 1, steps.length - 1);
  const bins = steps[at];
  if (!bins) return null;
  return (
    <section className="card chart-card histogram" aria-label={name}>
      <header>
        <h2 className="clip" title={name}>
          {name}
        </h2>
        <span className="grow" />
        {ranks.length > 1 && (
          <select
            className="input"
            aria-label={`Rank of ${name}`}
            value={rank}
            onChange={(event) => setRank(Number(event.target.value))}
          >
            {ranks.map((each) => (
              <option key={each.rank} value={each.rank}>
                Rank {each.rank}
              </option>
            ))}
          </select>
        )}
        <span className="muted histogram-step">step {formatNumber(bins.step)}</span>
      </header>
      {steps.length > 1 && (
        <>
          <StepMap steps={steps} scale={scale} at={at} setHover={setHover} choose={setChosen} />
          <input
            type="range"
            min={0}
            max={steps.length - 1}
            value={at}
            aria-label={`Step of ${name}`}
            onChange={(event) => setChosen(Number(event.target.value))}
          />
        </>
      )}
      <Bars bins={bins} scale={scale} />
    </section>
  );
}

interface MapProps {
  steps: Bins[];
  scale: Scale;
  at: number;
  setHover: (index: number | null) => void;
  choose: (index: number) => void;
}

function StepMap({ steps, scale, at, setHover, choose }: MapProps) {
  const paths = useMemo(() => mapPaths(steps, scale), [steps, scale]);
  const index = (event: React.PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    return stepAt(steps, (event.clientX - box.left) / box.width);
  };
  const place = side * stepPlace(steps, steps[at]?.step ?? 0);
  return (
    <div className="histogram-map">
      <span className="faint histogram-high">{formatNumber(scale.high)}</span>
      <svg
        viewBox={`0 0 ${side} ${side}`}
        preserveAspectRatio="none"
        aria-hidden="true"
        onPointerMove={(event) => setHover(index(event))}
        onPointerLeave={() => setHover(null)}
        onPointerDown={(event) => choose(index(event))}
      >
        {paths.map((path, shade) => (
          <path key={shade} className={`shade-${shade}`} d={path} />
        ))}
        <line x1={place} x2={place} y1={0} y2={side} vectorEffect="non-scaling-stroke" />
      </svg>
      <span className="faint histogram-low">{formatNumber(scale.low)}</span>
    </div>
  );
}

function Bars({ bins, scale }: { bins: Bins; scale: Scale }) {
  const shares = fullness(bins, scale);
  const total = bins.counts.reduce((sum, count) => sum + count, 0);
  return (
    <>
      <svg
        className="histogram-bars"
        viewBox={`0 0 ${side} 100`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${formatNumber(total)} values from ${formatNumber(bins.edges[0] ?? 0)} to ${formatNumber(bins.edges.at(-1) ?? 0)}`}
      >
        {shares.map((share, bin) => {
          const x = side * scale.place(bins, bin);
          const [from = 0, to = 0] = bins.edges.slice(bin, bin + 2);
          return (
            <rect
              key={from}
              x={x}
              width={side * scale.place(bins, bin + 1) - x}
              y={100 * (1 - share)}
              height={100 * share}
            >
              <title>
                {formatNumber(bins.counts[bin] ?? 0)} from {formatNumber(from)} to{" "}
                {formatNumber(to)}
              </title>
            </rect>
          );
        })}
      </svg>
      <div className="histogram-axis faint">
        <span>{formatNumber(scale.low)}</span>
        <span>{formatNumber(total)} values</span>
        <span>{formatNumber(scale.high)}</span>
      </div>
    </>
  );
}
