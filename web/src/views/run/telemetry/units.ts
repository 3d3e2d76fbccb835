// The unit of a telemetry metric is the end of its name (docs/design/telemetry.md).
import { formatBytes, formatNumber, formatTick } from "../../../text/format";

const percent = (value: number) => `${formatTick(Number(value.toPrecision(3)))} %`;
// Four digits tell neighbouring ticks apart.
const bytes = (value: number) => formatBytes(value, 4);
const bytesPerSecond = (value: number) => `${formatBytes(value, 4)}/s`;
const watts = (value: number) => `${formatTick(Number(value.toPrecision(4)))} W`;
const celsius = (value: number) => `${formatTick(Number(value.toPrecision(3)))} °C`;
const hertz = (value: number) => `${formatTick(Number((value / 1e6).toPrecision(4)))} MHz`;

/** True if the unit is bytes, or bytes a second. */
export function isBinary(name: string): boolean {
  return name.endsWith("_bytes") || name.endsWith("bytes_per_second");
}

/** The same function for the same unit, because charts are made again when it changes. */
export function unitOf(name: string): (value: number) => string {
  if (name.endsWith("_percent")) return percent;
  if (name.endsWith("bytes_per_second")) return bytesPerSecond;
  if (name.endsWith("_bytes")) return bytes;
  if (name.endsWith("_watts")) return watts;
  if (name.endsWith("_celsius")) return celsius;
  if (name.endsWith("_hertz")) return hertz;
  return formatNumber;
}
