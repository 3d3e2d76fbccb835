// Idle device-minutes as rows of a table. Pure.
import { type DeviceUse, toNumber } from "../../api/types";

/** What the table needs of a row of the API. */
export type UseRow = Pick<
  DeviceUse,
  "user" | "project" | "run" | "device_minutes" | "idle_minutes"
>;

export interface IdleRow {
  name: string;
  known: number;
  idle: number;
  /** Of the minutes whose use is known, from 0 to 1. */
  share: number;
}

/** The most idle minutes first; owners of whose devices nothing is known are left out. */
export function idleRows(rows: readonly UseRow[], by: "user" | "project" | "run"): IdleRow[] {
  return rows
    .flatMap((row) => {
      if (row.device_minutes === null || row.idle_minutes === null) return [];
      const known = toNumber(row.device_minutes);
      const idle = toNumber(row.idle_minutes);
      return known > 0 ? [{ name: row[by], known, idle, share: idle / known }] : [];
    })
    .sort((left, right) => right.idle - left.idle);
}
