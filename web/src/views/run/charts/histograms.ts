// From logged histograms to what is drawn: a map of all steps, and the bars of one. Pure.
import { type LoggedHistogram, toNumber } from "../../../api/types";

/** One histogram: `edges` has one number more than `counts`. */
export interface Bins {
  step: number;
  edges: number[];
  counts: number[];
}

/** The histograms of one name and rank, by step. */
export interface HistogramSeries {
  rank: number;
  steps: Bins[];
}

/** By name; each name has its ranks in ascending order. Each word must be in the name. */
export function histogramsByName(
  list: readonly LoggedHistogram[],
  search: string,
): Map<string, HistogramSeries[]> {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const names = new Map<string, HistogramSeries[]>();
  for (const { name, rank, step, edges, counts } of list) {
    if (counts.length === 0 || !words.every((word) => name.toLowerCase().includes(word))) continue;
    const ranks = names.get(name) ?? [];
    names.set(name, ranks);
    let series = ranks.find((each) => each.rank === rank);
    if (!series) {
      series = { rank, steps: [] };
      ranks.push(series);
      ranks.sort((a, b) => a.rank - b.rank);
    }
    series.steps.push({ step, edges: edges.map(toNumber), counts: counts.map(toNumber) });
  }
  return names;
}

/** A place on the axis of values, from 0 to 1, of an edge of a bin. */
type Place = (bins: Bins, edge: number) => number;

export interface Scale {
  low: number;
  high: number;
  /** Each bin has the same width, however many values it spans. */
  even: boolean;
  place: Place;
}

/**
 * Buckets such as 1, 10, 100 ms would be invisible on an axis of values: if widths differ much and
 * all steps have the same edges, each bin has the same width.
 */
export function scaleOf(steps: readonly Bins[]): Scale {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const { edges } of steps) {
    low = Math.min(low, edges[0] ?? low);
    high = Math.max(high, edges.at(-1) ?? high);
  }
  const first = steps[0];
  const even = !!first && isUneven(first) && steps.every((each) => hasSameEdges(each, first));
  const span = high - low || 1;
  const place: Place = even
    ? (bins, edge) => edge / bins.counts.length
    : (bins, edge) => ((bins.edges[edge] ?? high) - low) / span;
  return { low, high, even, place };
}

function isUneven({ edges }: Bins): boolean {
  const widths = edges.slice(1).map((edge, index) => edge - (edges[index] ?? edge));
  return Math.max(...widths) > 8 * Math.min(...widths);
}

function hasSameEdges(bins: Bins, other: Bins): boolean {
  return (
    bins.edges.length === other.edges.length &&
    bins.edges.every((edge, index) => edge === other.edges[index])
  );
}

/** How full each bin is: values for each unit of the axis, as a share of the fullest bin. */
export function fullness(bins: Bins, scale: Scale): number[] {
  const dense = bins.counts.map((count, bin) => {
    const width = scale.place(bins, bin + 1) - scale.place(bins, bin);
    return width > 0 && count > 0 ? count / width : 0;
  });
  const most = Math.max(...dense);
  return dense.map((each) => (most > 0 ? each / most : 0));
}

/** Shades of a map. */
export const shades = 6;
/** Both sides of the map's square, in its own units. */
export const side = 1_000;
const columnsMax = 200;

/**
 * A path of rectangles for each shade, the faintest first: a column for each step, which reaches to
 * the next one. Of more steps than there are columns, each nth is drawn.
 */
export function mapPaths(steps: readonly Bins[], scale: Scale): string[] {
  const paths = Array.from({ length: shades }, () => "");
  const columns = columnsOf(steps);
  for (const { bins, from, to } of columns) {
    fullness(bins, scale).forEach((share, bin) => {
      if (share === 0) return;
      const shade = Math.min(shades - 1, Math.floor(Math.sqrt(share) * shades));
      const top = Math.round(side * (1 - scale.place(bins, bin + 1)));
      const bottom = Math.round(side * (1 - scale.place(bins, bin)));
      paths[shade] += `M${from} ${top}H${to}V${bottom}H${from}Z`;
    });
  }
  return paths;
}

interface Column {
  bins: Bins;
  from: number;
  to: number;
}

function columnsOf(steps: readonly Bins[]): Column[] {
  const each = Math.ceil(steps.length / columnsMax);
  const shown = steps.filter((_, index) => index % each === 0);
  return shown.map((bins, index) => {
    const next = shown[index + 1]?.step;
    const to = next === undefined ? side : Math.round(side * stepPlace(steps, next));
    return { bins, from: Math.round(side * stepPlace(steps, bins.step)), to };
  });
}

/** The last step is as wide as the one before it. */
function stepEnd(steps: readonly Bins[]): number {
  const last = steps.at(-1)?.step ?? 0;
  return last + (last - (steps.at(-2)?.step ?? last - 1));
}

/** A step's place on the axis of steps, from 0 to 1. */
export function stepPlace(steps: readonly Bins[], step: number): number {
  const first = steps[0]?.step ?? 0;
  return (step - first) / (stepEnd(steps) - first || 1);
}

/** The index of the step that is drawn at a place from 0 to 1. */
export function stepAt(steps: readonly Bins[], place: number): number {
  const after = steps.findIndex(({ step }) => stepPlace(steps, step) > place);
  return Math.max(0, (after < 0 ? steps.length : after) - 1);
}
