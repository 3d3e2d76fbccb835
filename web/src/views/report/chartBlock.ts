// A chart within a report: a fenced block of Markdown with the language `chart`. Pure.
//
//   ```chart
//   metric: train/loss
//   runs: demo/1, demo/2        or   query: project:demo tag:baseline
//   x: step                     step, time, relative or a metric, such as tokens
//   smooth: 0.6
//   scale: log
//   title: Loss of the baselines
//   ```
import type { XAxis } from "../../charts/lines";

export interface ChartBlock {
  metric: string;
  runs: string[];
  query: string;
  axis: XAxis;
  smoothing: number;
  log: boolean;
  title: string;
}

export type ReadBlock = { block: ChartBlock } | { problem: string };

const names = ["metric", "runs", "query", "x", "smooth", "scale", "title"];
export const runsMax = 20;

export function readChartBlock(text: string): ReadBlock {
  const values: Record<string, string> = {};
  for (const line of text.split("\n").map((each) => each.trim())) {
    if (!line) continue;
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(0, colon)).trim();
    if (!names.includes(name))
      return { problem: `\`${line}\` is none of ${names.map((each) => `${each}:`).join(" ")}` };
    values[name] = line.slice(colon + 1).trim();
  }
  const runs = (values.runs ?? "").split(/[\s,]+/).filter(Boolean);
  if (!values.metric) return { problem: "`metric:` names the metric to draw" };
  const wrong = runs.find((run) => !/^[A-Za-z0-9][\w.-]*\/\d+$/.test(run));
  if (wrong) return { problem: `\`${wrong}\` is no run, such as demo/1` };
  if (runs.length === 0 && !values.query)
    return { problem: "`runs:` names runs, or `query:` selects them" };
  return {
    block: {
      metric: values.metric,
      runs: [...new Set(runs)].slice(0, runsMax),
      query: values.query ?? "",
      axis: readAxis(values.x ?? "step"),
      smoothing: Math.min(0.99, Math.max(0, Number(values.smooth) || 0)),
      log: values.scale === "log",
      title: values.title || values.metric,
    },
  };
}

function readAxis(text: string): XAxis {
  if (text === "" || text === "step" || text === "time" || text === "relative")
    return (text || "step") as XAxis;
  return `metric:${text.replace(/^metric:/, "")}`;
}

/** The text of a chart block, to insert into a report. */
export function writeChartBlock(metric: string, runs: readonly string[]): string {
  return `\`\`\`chart\nmetric: ${metric}\nruns: ${runs.join(", ")}\n\`\`\`\n`;
}

/** A report about compared runs: what differs, and a chart of each of their main metrics. */
export function draftOf(
  runs: readonly string[],
  metrics: readonly string[],
  differences: string,
): string {
  const charts = metrics.slice(0, 6).map((metric) => writeChartBlock(metric, runs));
  return [
    `What was tried, and what came out.\n`,
    `## Differences\n`,
    `${differences}\n`,
    `## Curves\n`,
    ...charts,
  ].join("\n");
}
