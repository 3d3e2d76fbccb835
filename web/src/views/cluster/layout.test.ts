import { expect, it } from "vitest";
import type { Host, Queue } from "../../api/types";
import { colorsOf, layOut } from "./layout";

function host(changes: Partial<Host>): Host {
  return {
    id: "a",
    pod: "pod",
    state: "open",
    reason: "",
    unavailable: "",
    since: null,
    devices: 4,
    free: 4,
    runs: [],
    events: [],
    labels: {},
    engine: "local",
    ...changes,
  };
}

const queue = { allocations: [{ run: "demo/1", devices: 2 }] } as unknown as Queue;

it("each device shows the run that has it, another run, or nothing", () => {
  const [group] = layOut([host({ runs: ["demo/1"], free: 1 })], undefined, queue);
  expect(group?.hosts[0]?.devices).toEqual(["demo/1", "demo/1", "", null]);
});

it("a host never shows more devices than it has", () => {
  const [group] = layOut([host({ devices: 1, free: 0, runs: ["demo/1"] })], undefined, queue);
  expect(group?.hosts[0]?.devices).toEqual(["demo/1"]);
});

it("hosts of a pod are together, and runs keep their colours", () => {
  const groups = layOut([host({}), host({ id: "b", runs: ["demo/1"], free: 2 })], undefined, queue);
  expect(groups.map((group) => group.hosts.length)).toEqual([2]);
  expect(colorsOf(groups).get("demo/1")).toBe(0);
});
