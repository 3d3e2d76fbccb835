// From records of ranks to lanes: which rank holds up the others, and which is late. Pure.
import type { FlightRecord, Operation } from "./record";

export interface Lane {
  rank: number;
  host: string;
  operations: Operation[];
  /** The sequence of the last collective that it has entered; 0: none. */
  entered: number;
  /** Ranks that wait for it in a collective that it has not entered. */
  held: number;
  /** Its median delay behind the others at the entry of collectives, in ms, if that costs time. */
  late: number | undefined;
}

export interface Group {
  key: string;
  name: string;
  size: number;
  lanes: Lane[];
}

/** As src/comm/flight/diagnosis/straggler.h has them. */
const rowsMin = 32;
const lagMin = 1;
const shareMin = 0.05;

export function groupsOf(records: readonly FlightRecord[]): Group[] {
  const groups = new Map<string, FlightRecord[]>();
  for (const record of records)
    groups.set(record.group, [...(groups.get(record.group) ?? []), record]);
  return [...groups]
    .map(([key, members]) => groupOf(key, members))
    .sort((a, b) => heldIn(b) - heldIn(a) || b.size - a.size);
}

function heldIn(group: Group): number {
  return Math.max(0, ...group.lanes.map(({ held }) => held));
}

function groupOf(key: string, records: readonly FlightRecord[]): Group {
  const lags = lagsOf(records);
  const all = records.map(enteredBy);
  const most = Math.max(0, ...all);
  const lanes = records.map((record, index) => {
    const entered = all[index] ?? 0;
    const waiting = records.filter((other, at) => (all[at] ?? 0) > entered && isOpen(other));
    return {
      rank: record.rank,
      host: record.host,
      operations: record.operations,
      entered,
      held: entered < most ? waiting.length : 0,
      late: lags.get(record.rank),
    };
  });
  lanes.sort((a, b) => b.held - a.held || (b.late ?? 0) - (a.late ?? 0) || a.rank - b.rank);
  const first = records[0];
  return { key, name: first?.name || key, size: first?.size ?? 0, lanes };
}

function enteredBy(record: FlightRecord): number {
  const collectives = record.operations.filter((each) => !each.isPair && each.started);
  return collectives.reduce((most, { sequence }) => Math.max(most, sequence), 0);
}

function isOpen(record: FlightRecord): boolean {
  return record.operations.some((each) => !each.isPair && each.state === "started");
}

/** By rank, for those whose delays sum up to a share of the time. Clocks of hosts must agree. */
function lagsOf(records: readonly FlightRecord[]): Map<number, number> {
  const entries = new Map<number, Map<number, number>>();
  for (const { rank, operations } of records)
    for (const each of operations)
      if (!each.isPair && each.state === "done" && each.started !== undefined)
        entries.set(
          each.sequence,
          (entries.get(each.sequence) ?? new Map()).set(rank, each.started),
        );
  const rows = [...entries.values()].filter((row) => row.size === records.length);
  if (records.length < 2 || rows.length < rowsMin) return new Map();
  const times = rows.flatMap((row) => [...row.values()]);
  const span =
    times.reduce((most, time) => Math.max(most, time), Number.NEGATIVE_INFINITY) -
    times.reduce((least, time) => Math.min(least, time), Number.POSITIVE_INFINITY);
  const late = new Map<number, number>();
  for (const { rank } of records) {
    const lags = rows.map((row) => {
      const others = [...row].flatMap(([other, time]) => (other === rank ? [] : [time]));
      return (row.get(rank) ?? 0) - median(others);
    });
    const sum = lags.reduce((total, lag) => total + Math.max(0, lag), 0);
    if (median(lags) >= lagMin && sum >= shareMin * span) late.set(rank, median(lags));
  }
  return late;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

/** The times that are drawn: the newest collectives of all ranks. */
export function windowOf(group: Group, newest: number, now: number): [number, number] {
  const starts = group.lanes.flatMap(({ operations }) =>
    operations.slice(-newest).flatMap(({ started }) => (started === undefined ? [] : [started])),
  );
  const ends = group.lanes.flatMap(({ operations }) =>
    operations.flatMap(({ state, ended }) => (state === "started" ? [now] : ended ? [ended] : [])),
  );
  const from = starts.reduce((least, time) => Math.min(least, time), now);
  const to = ends.reduce((most, time) => Math.max(most, time), from + 1);
  return [from, to];
}
