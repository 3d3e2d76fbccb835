// The bytes of a flight record, as src/comm/flight/format.h describes them. Pure. A record comes
// from a rank's own process, so nothing in it is trusted: what is not valid is left out.

export type OperationState = "queued" | "started" | "done" | "failed";

export interface Operation {
  sequence: number;
  name: string;
  label: string;
  bytes: number;
  state: OperationState;
  /** Between two ranks: its order among collectives means nothing. */
  isPair: boolean;
  /** Milliseconds of UTC; undefined: not yet. */
  started: number | undefined;
  ended: number | undefined;
  /** The rank, by its number in the run, for which it waits; undefined: for none. */
  waitsFor: number | undefined;
}

export interface FlightRecord {
  /** Its number in the run. */
  rank: number;
  size: number;
  group: string;
  name: string;
  host: string;
  operations: Operation[];
}

const magic = "LSFLIGHT";
const format = 2;
const headerBytes = 4096;
const slotBytes = 144;
const slotsMax = 4096;
const nameBytes = 16;
const at = {
  format: 8,
  slots: 12,
  rank: 16,
  size: 20,
  perTick: 40,
  ticks: 56,
  wall: 72,
  latestTicks: 88,
  latestWall: 104,
  group: 120,
  host: 248,
  operations: 440,
  name: 1984,
  members: 2112,
};
const states: OperationState[] = ["queued", "started", "done", "failed"];

/** Undefined: it is no record of this format. */
export function readRecord(base64: string): FlightRecord | undefined {
  const bytes = bytesOf(base64);
  if (!bytes || bytes.length < headerBytes) return undefined;
  const view = new DataView(bytes.buffer);
  if (textAt(bytes, 0, 8) !== magic || view.getUint32(at.format, true) !== format) return undefined;
  const slots = view.getUint32(at.slots, true);
  const size = view.getInt32(at.size, true);
  const rank = view.getInt32(at.rank, true);
  if (slots > slotsMax || bytes.length < headerBytes + slots * slotBytes) return undefined;
  if (size < 1 || rank < 0 || rank >= size) return undefined;
  const members = membersOf(textAt(bytes, at.members, 1024), size);
  const clock = clockOf(view);
  const operations: Operation[] = [];
  for (let slot = 0; slot < slots; slot += 1) {
    const operation = readSlot(bytes, view, headerBytes + slot * slotBytes, clock, members);
    if (operation) operations.push(operation);
  }
  operations.sort((a, b) => a.sequence - b.sequence);
  return {
    rank: members[rank] ?? rank,
    size,
    group: textAt(bytes, at.group, 128),
    name: textAt(bytes, at.name, 128) || textAt(bytes, at.group, 128),
    host: textAt(bytes, at.host, 128),
    operations,
  };
}

function readSlot(
  bytes: Uint8Array,
  view: DataView,
  offset: number,
  clock: (ticks: bigint) => number | undefined,
  members: readonly number[],
): Operation | undefined {
  const word = (index: number) => view.getBigUint64(offset + 8 * index, true);
  const isBeingWritten = word(0) % 2n === 1n;
  if (isBeingWritten || word(1) === 0n) return undefined;
  const state = states[view.getUint8(offset + 40)];
  const code = view.getUint8(offset + 41);
  if (!state || code >= 32) return undefined;
  const peer = view.getInt32(offset + 48, true);
  const awaited = view.getInt32(offset + 52, true);
  return {
    sequence: Number(word(2)),
    name: textAt(bytes, at.operations + code * nameBytes, nameBytes),
    label: textAt(bytes, offset + 88, 24),
    bytes: Number(word(3)),
    state,
    isPair: peer !== -1,
    started: clock(word(8)),
    ended: clock(word(9)),
    waitsFor: state !== "done" && awaited >= 0 ? (members[awaited] ?? awaited) : undefined,
  };
}

/** From the processor's counter to milliseconds of UTC, by the two samples of the header. */
function clockOf(view: DataView): (ticks: bigint) => number | undefined {
  const first = view.getBigUint64(at.ticks, true);
  const wall = view.getBigUint64(at.wall, true);
  const spanTicks = Number(view.getBigUint64(at.latestTicks, true) - first);
  const spanWall = Number(view.getBigUint64(at.latestWall, true) - wall);
  const given = view.getFloat64(at.perTick, true);
  const perTick = spanTicks > 0 && spanWall > 0 ? spanWall / spanTicks : given;
  return (ticks) =>
    ticks === 0n ? undefined : (Number(wall) + Number(ticks - first) * perTick) / 1e6;
}

/** "0-56/8,60" are the ranks 0, 8, ... 56 and 60. Empty: numbers within the group. */
export function membersOf(text: string, size: number): number[] {
  const members: number[] = [];
  for (const part of text.split(",")) {
    const [, first, last, step] = /^(\d+)(?:-(\d+)(?:\/(\d+))?)?$/.exec(part) ?? [];
    if (first === undefined) break;
    const by = Math.max(1, Number(step ?? 1));
    for (let rank = Number(first); rank <= Number(last ?? first); rank += by) {
      if (members.length === size) break;
      members.push(rank);
    }
  }
  return members.length === size ? members : Array.from({ length: size }, (_, index) => index);
}

function bytesOf(base64: string): Uint8Array | undefined {
  try {
    return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  } catch {
    return undefined;
  }
}

/** Up to the first zero; only what can be printed. */
function textAt(bytes: Uint8Array, offset: number, most: number): string {
  const part = bytes.subarray(offset, offset + most);
  const end = part.indexOf(0);
  const text = new TextDecoder().decode(end < 0 ? part : part.subarray(0, end));
  return text.replace(/\p{C}/gu, "");
}
