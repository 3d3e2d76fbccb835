import type { Host } from "../../api/types";
import { Link, runPath } from "../../app/router";
import type { Runs } from "./HostMap";
import { fillOf, fragmentationOf, healthOf, isMeasure, type Reading, shadeOf } from "./shades";

interface Props {
  index: number;
  /** "": of another project; null: free. */
  run: string | null;
  host: Host;
  runs: Runs;
  reading: Reading | undefined;
}

/** A device as a square, which leads to its run. */
export function Device({ index, run, host, runs, reading }: Props) {
  const { look, text, fill } = lookOf(run, host, runs, reading);
  const title = [run === null ? "free" : nameOf(run, runs), text].filter(Boolean).join("\n");
  const style = fill ? { background: fill } : undefined;
  if (!run) return <i className={`device ${look}`} style={style} title={title} />;
  return (
    <Link
      href={runPath(run)}
      className={`device ${look} ${runs.shown && runs.shown !== run ? "dim" : ""}`}
      style={style}
      title={title}
      aria-label={`Device ${index}: ${run}`}
      onMouseEnter={() => runs.setOver(run)}
      onMouseLeave={() => runs.setOver("")}
    />
  );
}

function nameOf(run: string, runs: Runs): string {
  if (run === "") return "a run of another project";
  return `${run} ${runs.names.get(run) ?? ""}${runs.users.has(run) ? `, ${runs.users.get(run)}` : ""}`;
}

function lookOf(
  run: string | null,
  host: Host,
  { mode, colors }: Runs,
  reading: Reading | undefined,
): { look: string; text: string; fill?: string } {
  if (mode === "health" || mode === "fragmentation") {
    const { level, text } = mode === "health" ? healthOf(host) : fragmentationOf(host);
    return { look: `level-${level} ${run === null ? "unused" : ""}`, text };
  }
  if (run === null) return { look: "free", text: "" };
  if (isMeasure(mode)) {
    const shade = shadeOf(mode, reading);
    if (shade.level === undefined) return { look: "unmeasured", text: shade.text };
    return { look: "measured", text: shade.text, fill: fillOf(mode, shade.level) };
  }
  return { look: run === "" ? "foreign" : `c${colors.get(run) ?? 0}`, text: "" };
}
