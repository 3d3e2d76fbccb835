import type { components } from "../api/schema";

type Series = components["schemas"]["SeriesList"]["series"][number];

export interface Outlier {
  rank: number;
  side: "highest" | "lowest";
}

const recent = 100;
const share = 0.8;

/**
 * The rank that has the greatest, or the least, value of most of the newest points, and is further
 * from the mean than the ranks on the other side are. Null if there is none. Pure.
 */
export function outlierOf(series: readonly Series[]): Outlier | null {
  const mean = lastValue(series, "mean");
  const low = lastValue(series, "min");
  const high = lastValue(series, "max");
  if (mean === null || low === null || high === null || !(high > low)) return null;
  const up = high - mean;
  const down = mean - low;
  if (up > 1.5 * down) return named(series, "max", "highest");
  return down > 1.5 * up ? named(series, "min", "lowest") : null;
}

function lastValue(series: readonly Series[], statistic: string): number | null {
  const value = series.find((each) => each.statistic === statistic)?.points.at(-1)?.value;
  return typeof value === "number" ? value : null;
}

function named(series: readonly Series[], statistic: string, side: Outlier["side"]) {
  const ranks = series.find((each) => each.statistic === statistic)?.point_ranks.slice(-recent);
  const rank = ranks?.at(-1);
  if (!ranks || rank === undefined) return null;
  const same = ranks.filter((each) => each === rank).length;
  return same >= share * Math.min(ranks.length, recent) || same >= 20 ? { rank, side } : null;
}
