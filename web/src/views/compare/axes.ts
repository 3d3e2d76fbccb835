// Settings and results of runs as axes: of parallel coordinates and of a scatter plot. Pure.
import { type Run, toNumber } from "../../api/types";
import { fieldValue, type Value } from "../../query/fields";
import { formatMinutes, formatNumber, formatSecondsTick, formatTick } from "../../text/format";
import { settingsOf } from "../../text/settings";

export interface Axis {
  name: string;
  /** From 0 to 1 for each run; null: it has no such value. */
  places: (number | null)[];
  /** The values as the runs have them. */
  values: Value[];
  ticks: { at: number; label: string }[];
}

const amounts = ["running", "cost", "devices", "step"];

/** Names of axes: settings that differ, then metrics, then what runs used. */
export function axisNames(runs: readonly Run[]): string[] {
  return [...differingSettings(runs), ...metricNames(runs), ...amounts];
}

export function differingSettings(runs: readonly Run[]): string[] {
  const all = runs.map((run) => settingsOf(run.spec.command));
  const names = [...new Set(all.flatMap((settings) => Object.keys(settings)))];
  return names.filter((name) => all.some((settings) => settings[name] !== all[0]?.[name])).sort();
}

function metricNames(runs: readonly Run[]): string[] {
  return [...new Set(runs.flatMap((run) => Object.keys(run.latest)))].sort();
}

/** The metric that a reader most likely compares by: a loss of evaluation, else of training. */
export function mainMetric(runs: readonly Run[]): string | undefined {
  const names = metricNames(runs);
  const wanted = [/(eval|val|test).*loss/i, /loss/i, /(eval|val|test).*acc/i, /accuracy|reward/i];
  for (const pattern of wanted) {
    const found = names.find((name) => pattern.test(name));
    if (found) return found;
  }
  return names[0];
}

/** A few settings and the main metric, which is last: lines end at the result. */
export function firstAxes(runs: readonly Run[]): string[] {
  const main = mainMetric(runs);
  const settings = differingSettings(runs).slice(0, 6);
  return [...(settings.length > 0 ? settings : ["devices", "running"]), ...(main ? [main] : [])];
}

export function axisOf(runs: readonly Run[], name: string): Axis {
  const values = runs.map((run) => axisValue(run, name));
  const numbers = values.filter((value) => value !== null);
  const isNumeric = numbers.every((value) => typeof value === "number");
  // The values of a metric may be whole by chance.
  const isWhole = !runs.some((run) => name in run.latest) && numbers.every(Number.isInteger);
  return isNumeric
    ? numberAxis(name, values as (number | null)[], isWhole)
    : textAxis(name, values);
}

/** Values that are not finite have no place on an axis. */
function axisValue(run: Run, name: string): Value {
  const metric = run.latest[name];
  const value = metric === undefined ? fieldValue(run, name) : toNumber(metric);
  return typeof value === "number" && !Number.isFinite(value) ? null : value;
}

function numberAxis(name: string, values: (number | null)[], isWhole: boolean): Axis {
  const finite = values.filter((value) => value !== null);
  if (finite.length === 0) return { name, places: values, values, ticks: [] };
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  // Learning rates and sizes are tried in powers: a linear axis would heap them at its end.
  const isLog = low > 0 && high / low >= 50;
  const scale = isLog ? Math.log : (value: number) => value;
  const [from, to] = [scale(low), scale(high)];
  const place = (value: number) => (to > from ? (scale(value) - from) / (to - from) : 0.5);
  const marks = to > from ? ticksBetween(low, high, isLog, isWhole) : [low];
  return {
    name,
    values,
    places: values.map((value) => (value === null ? null : place(value))),
    ticks: marks.map((value) => ({ at: place(value), label: tickOf(name, marks.length)(value) })),
  };
}

function tickOf(name: string, count: number): (value: number) => string {
  if (name === "running") return formatSecondsTick;
  if (name === "cost") return formatMinutes;
  return count === 1 ? formatNumber : formatTick; // a single value is no round number
}

function ticksBetween(low: number, high: number, isLog: boolean, isWhole: boolean): number[] {
  if (!isLog) return roundTicks(low, high, isWhole ? 1 : 0);
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(low)); Number(`1e${power}`) <= high; power += 1) {
    const tick = Number(`1e${power}`);
    if (tick >= low) ticks.push(tick);
  }
  return ticks.length > 1 ? ticks : [low, high].map((value) => Number(value.toPrecision(3)));
}

/** About five values with few digits, at least `least` apart. */
function roundTicks(low: number, high: number, least: number): number[] {
  const rough = (high - low) / 5;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(least, unit * ([1, 2, 5].find((factor) => factor * unit >= rough) ?? 10));
  const ticks: number[] = [];
  for (let at = Math.ceil(low / step); at * step <= high * (1 + 1e-12); at += 1)
    ticks.push(Number((at * step).toPrecision(12)));
  return ticks;
}

function textAxis(name: string, values: Value[]): Axis {
  const texts = values.map((value) => (value === null ? null : String(value)));
  const known = [...new Set(texts.filter((text) => text !== null))].sort((a, b) =>
    a.localeCompare(b, "en", { numeric: true }),
  );
  const place = (index: number) => (known.length > 1 ? index / (known.length - 1) : 0.5);
  return {
    name,
    values,
    places: texts.map((text) => (text === null ? null : place(known.indexOf(text)))),
    ticks: known.map((label, index) => ({ at: place(index), label })),
  };
}
