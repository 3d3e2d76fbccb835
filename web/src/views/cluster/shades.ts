// How a device or a host is coloured: by its run, its user, or by a value. Pure.
import type { Host } from "../../api/types";

export const modes = [
  ["run", "Run"],
  ["user", "Owner"],
  ["use", "Use"],
  ["power", "Power"],
  ["temperature", "Temperature"],
  ["health", "Health"],
  ["fragmentation", "Fragmentation"],
] as const;
export type Mode = (typeof modes)[number][0];

export function modeOf(text: string): Mode {
  return modes.find(([mode]) => mode === text)?.[0] ?? "run";
}

/** The latest readings of one device; a missing one was not measured. */
export interface Reading {
  use?: number;
  watts?: number;
  wattsMax?: number;
  celsius?: number;
}

export type Measure = "use" | "power" | "temperature";

export function isMeasure(mode: Mode): mode is Measure {
  return mode === "use" || mode === "power" || mode === "temperature";
}

export interface Shade {
  /** 0 to 1; undefined: there is no reading. */
  level?: number;
  text: string;
}

const coolest = 30;
const hottest = 90;
const wattsWithoutLimit = 700;

export function shadeOf(measure: Measure, reading: Reading | undefined): Shade {
  if (measure === "use")
    return shade(reading?.use, 100, (value) => `${Math.round(value)} % in use`);
  if (measure === "power") {
    const most = reading?.wattsMax || wattsWithoutLimit;
    return shade(
      reading?.watts,
      most,
      (value) => `${Math.round(value)} W of ${Math.round(most)} W`,
    );
  }
  const celsius = reading?.celsius;
  if (celsius === undefined) return { text: "not measured" };
  return {
    level: clamp((celsius - coolest) / (hottest - coolest)),
    text: `${Math.round(celsius)} °C`,
  };
}

function shade(value: number | undefined, most: number, say: (value: number) => string): Shade {
  if (value === undefined) return { text: "not measured" };
  return { level: clamp(value / most), text: say(value) };
}

function clamp(value: number): number {
  return Math.min(1, Math.max(0, value));
}

/** From the colour of little to that of much; heat ends in the colour of what is bad. */
export function fillOf(measure: Measure, level: number): string {
  const percent = Math.round(12 + level * 88);
  const hot = measure === "temperature" && level > 0.75;
  return `color-mix(in srgb, var(${hot ? "--bad" : "--busy"}) ${percent}%, var(--surface))`;
}

export const scaleEnds: Record<Measure, [string, string]> = {
  use: ["0 %", "100 %"],
  power: ["0 W", "limit"],
  temperature: [`${coolest} °C`, `${hottest} °C`],
};

/** good: all of it can be given; warn: a part; bad: none, or it is broken. */
export type Level = "good" | "warn" | "bad" | "idle";

export function healthOf(host: Host): { level: Level; text: string } {
  if (host.unavailable) return { level: "bad", text: host.unavailable };
  if (host.state !== "open") return { level: "warn", text: host.reason || host.state };
  return { level: "good", text: "healthy" };
}

/** A host with some devices free takes no run that needs a whole host. */
export function fragmentationOf(host: Host): { level: Level; text: string } {
  const usable = host.state === "open" && !host.unavailable;
  if (!usable) return { level: "bad", text: "takes no run" };
  if (host.free === host.devices) return { level: "good", text: "all free" };
  if (host.free === 0) return { level: "idle", text: "all in use" };
  return { level: "warn", text: `${host.free} of ${host.devices} free` };
}

export const levelNames: Record<"health" | "fragmentation", [Level, string][]> = {
  health: [
    ["good", "healthy"],
    ["warn", "kept from runs"],
    ["bad", "unavailable"],
  ],
  fragmentation: [
    ["good", "all free"],
    ["warn", "in part"],
    ["idle", "all in use"],
    ["bad", "takes no run"],
  ],
};
