// The tab's side of the stream of changes: it reads again what has changed, and says if it is live.
import type { QueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import type { Changes } from "../api/types";
import { Feed, type Message } from "./feed";
import { Pacer, topicsOf } from "./topics";
import type { Request } from "./worker";

let live = false;
const listeners = new Set<() => void>();
const lineReaders = new Map<string, Set<() => void>>();
let request: (what: Request) => void = () => undefined;

/** Connects this tab, until the result is called: while its reader is logged in. */
export function startLive(client: QueryClient): () => void {
  // Data that a tab does not show are only marked, and read when they are shown.
  const pacer = new Pacer((topic) => void client.invalidateQueries({ queryKey: [...topic] }));
  request = connect((message) => {
    if (message.kind !== "changes") {
      setLive(message.kind === "open");
      // What happened before the stream began is not known.
      if (message.kind === "open" && !message.resumed) void client.invalidateQueries();
      wakeAll();
      return;
    }
    const topics = topicsOf(message.changes);
    if (topics) for (const topic of topics) pacer.add(topic);
    else void client.invalidateQueries();
    wakeReaders(message.changes);
  });
  const say = request;
  const bye = () => say("bye");
  // A tab that comes back from the browser's cache of pages.
  const hello = () => say("hello");
  window.addEventListener("pagehide", bye);
  window.addEventListener("pageshow", hello);
  hello();
  return () => {
    bye();
    window.removeEventListener("pagehide", bye);
    window.removeEventListener("pageshow", hello);
    setLive(false);
  };
}

/** The reader has logged in or out. */
export function restartLive(): void {
  request("restart");
}

function connect(tell: (message: Message) => void): (what: Request) => void {
  if (typeof SharedWorker === "undefined") return connectAlone(tell);
  const worker = new SharedWorker(new URL("./worker.ts", import.meta.url), {
    type: "module",
    name: "lockstep changes",
  });
  worker.port.onmessage = ({ data }: MessageEvent<Message>) => tell(data);
  return (what) => worker.port.postMessage(what);
}

function connectAlone(tell: (message: Message) => void): (what: Request) => void {
  const feed = new Feed(tell);
  return (what) => {
    if (what === "bye") feed.stop();
    else if (what === "restart") feed.restart();
    else feed.start();
  };
}

function setLive(value: boolean): void {
  live = value;
  for (const listener of listeners) listener();
}

export function isLive(): boolean {
  return live;
}

export function useIsLive(): boolean {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, isLive);
}

/** How often a query is read: as said without the stream, seldom with it. */
export function usePause(milliseconds: number): number {
  return useIsLive() ? 60_000 : milliseconds;
}

/** Says when a run has further lines. */
export interface LineWatch {
  /**
   * Ends when the run has had lines since the watch began or the last call ended, when the
   * connection has changed, or after the time.
   */
  next: (milliseconds: number, signal: AbortSignal) => Promise<void>;
  end: () => void;
}

/** A watch that is begun before lines are read misses none that come meanwhile. */
export function watchLines(id: string): LineWatch {
  const readers = lineReaders.get(id) ?? new Set();
  lineReaders.set(id, readers);
  let isNew = false;
  let wake = () => {};
  const tell = () => {
    isNew = true;
    wake();
  };
  readers.add(tell);
  return {
    async next(milliseconds, signal) {
      if (!isNew && !signal.aborted)
        await new Promise<void>((resolve) => {
          const end = () => {
            clearTimeout(timer);
            signal.removeEventListener("abort", end);
            wake = () => {};
            resolve();
          };
          const timer = setTimeout(end, milliseconds);
          signal.addEventListener("abort", end);
          wake = end;
        });
      isNew = false;
    },
    end() {
      readers.delete(tell);
      if (readers.size === 0 && lineReaders.get(id) === readers) lineReaders.delete(id);
    },
  };
}

function wakeReaders(changes: Changes): void {
  if (changes.all) {
    wakeAll();
    return;
  }
  // A run that has ended has a last line, and no further one.
  for (const run of [...changes.lines, ...changes.runs])
    for (const wake of [...(lineReaders.get(run) ?? [])]) wake();
}

function wakeAll(): void {
  for (const readers of [...lineReaders.values()]) for (const wake of [...readers]) wake();
}
