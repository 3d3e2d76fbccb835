// Numbers, times and sizes as short texts. All results have a bounded width, for columns of tables.

/** A metric: four significant digits, an exponent only where digits would be lost. */
export function formatNumber(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text =
    size >= 1e6 || size < 1e-3
      ? formatLargeOrSmall(value, size)
      : Number.isInteger(value)
        ? value.toLocaleString("en-US")
        : size >= 1e3
          ? Math.round(value).toLocaleString("en-US")
          : value.toPrecision(4);
  return text.replace("-", "−");
}

function formatLargeOrSmall(value: number, size: number): string {
  for (const [unit, suffix] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
  ] as const) {
    if (size >= unit && size < 1e15) return `${(value / unit).toPrecision(4)}${suffix}`;
  }
  return value.toExponential(2).replace("e+", "e");
}

/** A tick of an axis: shorter than a metric. */
export function formatTick(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) {
    return Number(value.toPrecision(3)).toExponential().replace("e+", "e").replace("-", "−");
  }
  for (const [unit, suffix] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (size >= unit) return `${round(value / unit)}${suffix}`;
  }
  return round(value);
}

function round(value: number): string {
  return String(Number(value.toPrecision(6))).replace("-", "−");
}

/** Seconds as "3s", "5m 20s", "2h 05m" or "3d 4h", rounded down as in "3s ago". */
export function formatSeconds(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  const total = Math.max(0, Math.floor(seconds));
  if (total < 60) return `${total}s`;
  if (total < 3600) return `${Math.floor(total / 60)}m ${pad(total % 60)}s`;
  if (total < 86400) return `${Math.floor(total / 3600)}h ${pad(Math.floor((total % 3600) / 60))}m`;
  return `${Math.floor(total / 86400)}d ${Math.floor((total % 86400) / 3600)}h`;
}

/** The same without a last part that is zero, such as "5m" and "2h". */
export function formatSecondsTick(seconds: number): string {
  return formatSeconds(seconds).replace(/ 0+[smh]$/, "");
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

/** A time relative to now: "12s ago", "in 3h 20m". */
export function formatAgo(time: number, now: number): string {
  const seconds = (now - time) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds >= 0 ? `${coarse(seconds)} ago` : `in ${ahead(-seconds)}`;
}

function coarse(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

/** Plans need minutes as well: a start in 1h 50m is not one in an hour. */
function ahead(seconds: number): string {
  const rest =
    seconds < 86400 ? Math.floor((seconds % 3600) / 60) : Math.floor((seconds % 86400) / 3600);
  if (seconds < 3600 || rest === 0) return coarse(seconds);
  return `${coarse(seconds)} ${rest}${seconds < 86400 ? "m" : "h"}`;
}

/** The exact time in the reader's zone, with the zone's name. */
export function formatExact(time: number): string {
  return new Date(time).toLocaleString(undefined, {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hour12: false,
    timeZoneName: "short",
  });
}

export function formatBytes(bytes: number, digits = 3): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toPrecision(digits)} ${units[unit]}`;
}

/** Device-minutes, as hours from two hours on. */
export function formatMinutes(minutes: number): string {
  if (minutes > 0 && minutes < 0.05) return "<0.1 min";
  if (minutes < 120) return `${minutes < 10 ? minutes.toFixed(1) : Math.round(minutes)} min`;
  const hours = minutes / 60;
  return `${hours < 100 ? hours.toFixed(1) : Math.round(hours).toLocaleString("en-US")} h`;
}

/** Reads the API's durations, such as "1h 30m"; in seconds. */
export function parseDuration(text: string): number {
  const sizes: Record<string, number> = { d: 86400, h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6 };
  let total = 0;
  for (const [, value, unit] of text.matchAll(/([\d.]+)\s*(ms|us|d|h|m|s)/g)) {
    total += Number(value) * (sizes[unit ?? "s"] ?? 0);
  }
  return total;
}
