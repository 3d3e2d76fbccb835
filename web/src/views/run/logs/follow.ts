// If a box of lines stays at its end while lines come. Pure.

/** Where a box is scrolled to, in pixels. */
export interface Scroll {
  top: number;
  /** The height of all lines. */
  height: number;
  /** The height of the box. */
  view: number;
}

/** Nearer to the end than two lines is at the end. */
const near = 40;

/**
 * If the box follows its end after it was scrolled. The browser tells of a scroll later, when
 * further lines may have moved the end away. So only a scroll up leaves the end.
 */
export function followsEnd(followed: boolean, before: Scroll, now: Scroll): boolean {
  if (now.height - now.top - now.view < near) return true;
  const shrunk = Math.max(0, before.height - now.height);
  return followed && before.top - now.top <= shrunk + 1;
}
