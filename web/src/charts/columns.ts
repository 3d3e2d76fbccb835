// A line as the part of each column of pixels that it covers. Pure.
//
// A noisy curve goes up and down within each column, so its line covers most of the columns between
// its extremes. A browser without a GPU takes several milliseconds to draw such a line as a path,
// because each pixel row crosses hundreds of edges. One rectangle a column shows the same.

/** Pixels from the top. NaN: the line is not in this column. */
export interface Columns {
  top: Float64Array;
  bottom: Float64Array;
}

/** The extremes in `width` columns from `left` on of the line through points whose x ascend. */
export function columnsOf(
  x: readonly number[],
  y: readonly number[],
  left: number,
  width: number,
): Columns {
  const top = new Float64Array(width).fill(Number.NaN);
  const bottom = new Float64Array(width).fill(Number.NaN);
  const cover = (column: number, from: number, to: number) => {
    if (column < 0 || column >= width) return;
    const [low, high] = from < to ? [from, to] : [to, from];
    if (!((top[column] as number) <= low)) top[column] = low;
    if (!((bottom[column] as number) >= high)) bottom[column] = high;
  };
  for (let index = 0; index < x.length; index += 1) {
    const endX = (x[index] as number) - left;
    const endY = y[index] as number;
    const startX = index > 0 ? (x[index - 1] as number) - left : endX;
    const startY = index > 0 ? (y[index - 1] as number) : endY;
    const slope = endX > startX ? (endY - startY) / (endX - startX) : 0;
    const last = Math.floor(endX);
    let column = Math.floor(startX);
    let at = startY;
    if (column < -1) {
      column = Math.min(-1, last);
      at = startY + (Math.max(column, startX) - startX) * slope;
    }
    for (; column < last && column < width; column += 1) {
      const next = startY + (column + 1 - startX) * slope;
      cover(column, at, next);
      at = next;
    }
    if (column === last) cover(last, at, endY);
  }
  return { top, bottom };
}

/** Mean height that the line has in its columns: that of a smooth curve is a few pixels at most. */
export function meanHeight({ top, bottom }: Columns): number {
  let sum = 0;
  let count = 0;
  for (let column = 0; column < top.length; column += 1) {
    const height = (bottom[column] as number) - (top[column] as number);
    if (Number.isNaN(height)) continue;
    sum += height;
    count += 1;
  }
  return count > 0 ? sum / count : 0;
}
