import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { Changes } from "../api/types";
import { Feed, type Message } from "./feed";
import { Pacer, topicsOf } from "./topics";

const nothing: Changes = {
  all: false,
  runs: [],
  points: [],
  lines: [],
  queue: false,
  hosts: false,
  budgets: false,
};

class FakeSource {
  readyState = 0;
  onmessage: ((event: MessageEvent<string>) => void) | null = null;
  onerror: (() => void) | null = null;
  close(): void {
    this.readyState = 2;
  }
  say(id: string, changes: Partial<Changes> = {}): void {
    this.readyState = 1;
    const data = JSON.stringify({ ...nothing, ...changes });
    this.onmessage?.({ data, lastEventId: id } as MessageEvent<string>);
  }
  fail(isFinal: boolean): void {
    this.readyState = isFinal ? 2 : 0;
    this.onerror?.();
  }
}

let sources: FakeSource[] = [];
let told: Message[] = [];

function feed(): Feed {
  const open = () => {
    const source = new FakeSource();
    sources.push(source);
    return source as unknown as EventSource;
  };
  return new Feed((message) => told.push(message), open);
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("EventSource", { CLOSED: 2 });
  sources = [];
  told = [];
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("a change of a run concerns it and the lists, and its points its charts", () => {
  expect(topicsOf({ ...nothing, runs: ["a/1"], queue: true })).toEqual([
    ["run", "a/1"],
    ["findings", "a/1"],
    ["runs"],
    ["queue"],
  ]);
  expect(topicsOf({ ...nothing, points: ["a/1"] })).toContainEqual(["metric", "a/1"]);
  expect(topicsOf({ ...nothing, points: ["a/1"] })).toContainEqual(["spark", "a/1"]);
  expect(topicsOf({ ...nothing, all: true })).toBeUndefined();
});

it("many changes of a topic are one reading at once and one at the end", () => {
  const read: string[] = [];
  const pacer = new Pacer((topic) => read.push(topic.join(" ")));
  for (let change = 0; change < 10; change += 1) pacer.add(["queue"]);
  pacer.add(["run", "a/1"]);
  expect(read).toEqual(["queue", "run a/1"]);
  vi.advanceTimersByTime(10_000);
  expect(read).toEqual(["queue", "run a/1", "queue"]);
});

it("starting twice opens one connection", () => {
  const one = feed();
  one.start();
  one.start();
  expect(sources).toHaveLength(1);
});

it("a connection that the browser opens again goes on with what was missed", () => {
  const one = feed();
  one.start();
  sources[0]?.say("x-1");
  sources[0]?.fail(false);
  sources[0]?.say("x-2", { runs: ["a/1"] });
  expect(told.map(({ kind }) => kind)).toEqual(["open", "lost", "open", "changes"]);
  expect(told[2]).toEqual({ kind: "open", resumed: true });
});

it("after a refusal it connects again later, and knows nothing of before", () => {
  const one = feed();
  one.start();
  sources[0]?.say("x-1");
  sources[0]?.fail(true);
  expect(sources).toHaveLength(1);
  vi.advanceTimersByTime(1_000);
  expect(sources).toHaveLength(2);
  sources[1]?.say("y-1");
  expect(told.at(-1)).toEqual({ kind: "open", resumed: false });
});

it("a refused connection is opened at once when a tab starts", () => {
  const one = feed();
  one.start();
  sources[0]?.fail(true);
  one.start();
  expect(sources).toHaveLength(2);
  vi.advanceTimersByTime(20_000);
  expect(sources).toHaveLength(2);
});
