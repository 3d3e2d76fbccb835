import { useQuery } from "@tanstack/react-query";
import { sparkQuery } from "../../api/curves";
import { type Run, toNumber } from "../../api/types";
import { sparkOf } from "../../charts/spark";
import { formatNumber } from "../../text/format";

const width = 88;
const height = 20;

/** The curve of a metric within a row, and its last value. */
export function SparkCell({ run, metric }: { run: Run; metric: string }) {
  const logged = metric in run.latest;
  const query = useQuery({
    ...sparkQuery(run.id, metric, run.state === "running"),
    enabled: logged,
  });
  const latest = run.latest[metric];
  if (!logged || latest === undefined) return <span className="faint">–</span>;
  const spark = query.data ? sparkOf(query.data.x, query.data.values, width, height) : null;
  const value = formatNumber(toNumber(latest));
  return (
    <span className="spark">
      <svg
        width={width + 6}
        height={height + 6}
        viewBox={`-3 -3 ${width + 6} ${height + 6}`}
        aria-hidden="true"
      >
        {spark && <path d={spark.path} />}
        {spark && <circle cx={spark.end[0]} cy={spark.end[1]} r="2" />}
      </svg>
      <span className="number">{value}</span>
    </span>
  );
}
