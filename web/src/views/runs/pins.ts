// Columns that stay in view while the others scroll to the side. Pure.
import type { CSSProperties } from "react";
import type { ColumnView } from "./columns";

/** The width of the column of boxes, in pixels. */
export const boxWidth = 34;

export interface PlacedColumn extends ColumnView {
  /** The place of a pinned column, in pixels from the left of the table. */
  left?: number;
  /** The last pinned one: a line separates it from those that scroll. */
  isEdge?: boolean;
}

/** A table that scrolls has all columns at their least width, so their places are known. */
export function placeColumns(views: readonly ColumnView[], pinned: number): PlacedColumn[] {
  let left = boxWidth;
  return views.map((view, index) => {
    if (index >= pinned) return view;
    const placed = { ...view, left, isEdge: index === Math.min(pinned, views.length) - 1 };
    left += view.width;
    return placed;
  });
}

export function pinClass(view: PlacedColumn): string {
  if (view.left === undefined) return "";
  return view.isEdge ? "pinned edge" : "pinned";
}

export function pinStyle(view: PlacedColumn): CSSProperties | undefined {
  return view.left === undefined ? undefined : { left: view.left };
}
