import { expect, it } from "vitest";
import { groupsOf } from "./lanes";
import { type FlightRecord, membersOf, type Operation, readRecord } from "./record";

function collective(sequence: number, started: number, ended?: number): Operation {
  return {
    sequence,
    name: "all_reduce",
    label: "",
    bytes: 8,
    state: ended === undefined ? "started" : "done",
    isPair: false,
    started,
    ended,
    waitsFor: undefined,
  };
}

function record(rank: number, operations: Operation[]): FlightRecord {
  return { rank, size: 3, group: "g", name: "world", host: "a", operations };
}

/** A record of one slot: an all_reduce with sequence 5 that has started and waits for rank 8. */
function oneSlot(): string {
  const bytes = new Uint8Array(4096 + 144);
  const view = new DataView(bytes.buffer);
  const put = (offset: number, text: string) => bytes.set(new TextEncoder().encode(text), offset);
  put(0, "LSFLIGHT");
  view.setUint32(8, 2, true);
  view.setUint32(12, 1, true);
  view.setInt32(16, 2, true);
  view.setInt32(20, 3, true);
  view.setFloat64(40, 1, true);
  view.setBigUint64(56, 1_000n, true);
  view.setBigUint64(72, 5_000_000_000n, true);
  view.setBigUint64(88, 1_000n, true);
  view.setBigUint64(104, 5_000_000_000n, true);
  put(120, "run.g");
  put(248, "vm-1");
  put(440 + 16, "all_reduce");
  put(2112, "0-16/8");
  const word = (index: number, value: bigint) => view.setBigUint64(4096 + 8 * index, value, true);
  word(0, 2n);
  word(1, 1n);
  word(2, 5n);
  word(3, 64n);
  word(5, 0xffffffff_ffff0101n);
  view.setInt32(4096 + 48, -1, true);
  view.setInt32(4096 + 52, 1, true);
  word(8, 2_001_000n);
  put(4096 + 88, "layers.7");
  return btoa(String.fromCharCode(...bytes));
}

it("a record's bytes are its operations, with times of UTC and numbers of the run", () => {
  expect(readRecord(oneSlot())).toMatchObject({
    rank: 16,
    size: 3,
    group: "run.g",
    name: "run.g",
    host: "vm-1",
    operations: [
      {
        sequence: 5,
        name: "all_reduce",
        label: "layers.7",
        bytes: 64,
        state: "started",
        isPair: false,
        started: 5_002,
        ended: undefined,
        waitsFor: 8,
      },
    ],
  });
});

it("what is no record, or is cut off, is refused", () => {
  expect(readRecord("not base64!")).toBeUndefined();
  expect(readRecord(btoa("short"))).toBeUndefined();
  expect(readRecord(oneSlot().slice(0, -200))).toBeUndefined();
});

it("members are ranges; ones that do not fit are numbers within the group", () => {
  expect(membersOf("0-16/8,3", 4)).toEqual([0, 8, 16, 3]);
  expect(membersOf("", 2)).toEqual([0, 1]);
  expect(membersOf("0-9999999999", 2)).toEqual([0, 1]);
});

it("the rank that has not entered what the others wait in comes first", () => {
  const [group] = groupsOf([
    record(0, [collective(1, 0, 5), collective(2, 6)]),
    record(1, [collective(1, 0, 5), collective(2, 6)]),
    record(2, [collective(1, 0, 5)]),
  ]);
  expect(group?.lanes.map(({ rank, held }) => [rank, held])).toEqual([
    [2, 2],
    [0, 0],
    [1, 0],
  ]);
});

it("a rank that enters each collective late is a straggler", () => {
  const steps = Array.from({ length: 40 }, (_, index) => index + 1);
  const on = (delay: number) => steps.map((n) => collective(n, n * 20 + delay, n * 20 + 6));
  const [group] = groupsOf([record(0, on(0)), record(1, on(5)), record(2, on(0.1))]);
  expect(group?.lanes.map(({ rank, late }) => [rank, late && Math.round(late)])).toEqual([
    [1, 5],
    [0, undefined],
    [2, undefined],
  ]);
});
