import type { Value } from "../../query/fields";
import { formatNumber } from "../../text/format";

export function valueText(value: Value): string {
  if (value === null) return "–";
  return typeof value === "number" ? formatNumber(value) : value;
}
