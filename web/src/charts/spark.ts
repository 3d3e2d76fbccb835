// A small curve as the path of an SVG. Pure.
import { type ApiNumber, toNumber } from "../api/types";

export interface Spark {
  path: string;
  /** The last finite value's place, for a dot. */
  end: [number, number];
}

/** Fits the points into the box, with a gap where a value is not finite. Null: nothing to draw. */
export function sparkOf(
  x: readonly ApiNumber[],
  values: readonly ApiNumber[],
  width: number,
  height: number,
): Spark | null {
  const points = x.flatMap((at, index) => {
    const value = toNumber(values[index] ?? "NaN");
    return Number.isFinite(value) ? [{ at: toNumber(at), value }] : [null];
  });
  const finite = points.filter((point) => point !== null);
  const first = finite[0];
  const last = finite.at(-1);
  if (!first || !last) return null;
  let [low, high] = [first.value, first.value];
  for (const { value } of finite) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const left = (at: number) =>
    last.at > first.at ? ((at - first.at) / (last.at - first.at)) * width : width;
  const top = (value: number) =>
    high > low ? height - ((value - low) / (high - low)) * height : height / 2;
  const place = ({ at, value }: { at: number; value: number }): [number, number] => [
    round(left(at)),
    round(top(value)),
  ];
  let path = "";
  let move = true;
  for (const point of points) {
    if (point) path += `${move ? "M" : "L"}${place(point).join(" ")}`;
    move = !point;
  }
  return { path, end: place(last) };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
