// Some browsers have no SharedWorker (Chrome on Android): the tab then has a stream of its own.
import type { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";

class FakeSource {
  static readonly CLOSED = 2;
  static opened: FakeSource[] = [];
  readyState = 1;
  onmessage: ((event: MessageEvent<string>) => void) | null = null;
  onerror: (() => void) | null = null;
  constructor(readonly url: string) {
    FakeSource.opened.push(this);
  }
  close(): void {
    this.readyState = FakeSource.CLOSED;
  }
  say(id: string, changes: object): void {
    const nothing = { all: false, runs: [], points: [], lines: [] };
    const data = JSON.stringify({ ...nothing, ...changes });
    this.onmessage?.({ data, lastEventId: id } as MessageEvent<string>);
  }
}

const invalidateQueries = vi.fn(() => Promise.resolve());
const client = { invalidateQueries } as unknown as QueryClient;

beforeEach(() => {
  vi.resetModules();
  vi.useFakeTimers();
  vi.stubGlobal("EventSource", FakeSource);
  vi.stubGlobal("SharedWorker", undefined);
  vi.stubGlobal("window", new EventTarget());
  FakeSource.opened = [];
  invalidateQueries.mockClear();
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("without shared workers the tab reads the stream itself, and closes it at its end", async () => {
  const { isLive, startLive } = await import("./live");
  const end = startLive(client);
  const [source] = FakeSource.opened;
  expect(FakeSource.opened.map(({ url }) => url)).toEqual(["/api/v1/events"]);
  expect(isLive()).toBe(false);
  source?.say("d-1", {});
  expect(isLive()).toBe(true);
  invalidateQueries.mockClear();
  source?.say("d-2", { runs: ["demo/4"] });
  expect(invalidateQueries).toHaveBeenCalledWith({ queryKey: ["run", "demo/4"] });
  end();
  expect(source?.readyState).toBe(FakeSource.CLOSED);
  expect(isLive()).toBe(false);
});

it("a tab that the browser hides for good closes its stream, and opens one when it is back", async () => {
  const { startLive } = await import("./live");
  const end = startLive(client);
  window.dispatchEvent(new Event("pagehide"));
  expect(FakeSource.opened[0]?.readyState).toBe(FakeSource.CLOSED);
  window.dispatchEvent(new Event("pageshow"));
  expect(FakeSource.opened).toHaveLength(2);
  end();
});

it("a watch of lines tells of lines that came while nothing waited", async () => {
  const { startLive, watchLines } = await import("./live");
  const end = startLive(client);
  FakeSource.opened[0]?.say("d-1", {});
  const watch = watchLines("demo/4");
  const stop = new AbortController();
  FakeSource.opened[0]?.say("d-2", { lines: ["demo/4"] });
  await watch.next(20_000, stop.signal);
  let isOver = false;
  const second = watch.next(20_000, stop.signal).then(() => {
    isOver = true;
  });
  FakeSource.opened[0]?.say("d-3", { lines: ["demo/5"] });
  await vi.advanceTimersByTimeAsync(19_000);
  expect(isOver).toBe(false);
  FakeSource.opened[0]?.say("d-4", { lines: ["demo/4"] });
  await second;
  watch.end();
  end();
});

it("a watch of lines ends after its time, and when its reader leaves", async () => {
  const { watchLines } = await import("./live");
  const watch = watchLines("demo/4");
  const stop = new AbortController();
  const first = watch.next(1_000, stop.signal);
  await vi.advanceTimersByTimeAsync(1_000);
  await first;
  const second = watch.next(20_000, stop.signal);
  stop.abort();
  await second;
  watch.end();
});
