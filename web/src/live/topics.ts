// Which of the data that the page holds a change concerns, and how soon each is read again. Pure.
import type { Changes } from "../api/types";

/** Begins of the keys of queries. */
export type Topic = readonly string[];

/** The least time between two readings, in milliseconds: a list costs more than a run. */
const pauses: Record<string, number> = {
  run: 500,
  runs: 1_500,
  metric: 2_000,
  spark: 5_000,
  telemetry: 5_000,
  queue: 1_500,
  hosts: 2_000,
  budgets: 3_000,
  postings: 3_000,
  usage: 10_000,
};

export function pauseOf(topic: Topic): number {
  return pauses[topic[0] ?? ""] ?? 1_000;
}

/** None: all that is shown must be read again. */
export function topicsOf(changes: Changes): Topic[] | undefined {
  if (changes.all) return undefined;
  const topics: Topic[] = [];
  for (const run of changes.runs) topics.push(["run", run], ["findings", run]);
  for (const run of changes.points) {
    if (!changes.runs.includes(run)) topics.push(["run", run]);
    topics.push(["metric", run], ["telemetry", run], ["spark", run]);
  }
  if (changes.runs.length > 0 || changes.points.length > 0) topics.push(["runs"]);
  if (changes.queue) topics.push(["queue"]);
  if (changes.hosts) topics.push(["hosts"], ["map"]);
  if (changes.budgets) topics.push(["budgets"], ["postings"], ["usage"]);
  return topics;
}

/** Calls for each topic at once, and then at most once in its pause; the last call is not lost. */
export class Pacer {
  private readonly waiting = new Map<string, ReturnType<typeof setTimeout>>();
  private readonly again = new Set<string>();

  constructor(private readonly call: (topic: Topic) => void) {}

  add(topic: Topic): void {
    const key = topic.join(" ");
    if (this.waiting.has(key)) {
      this.again.add(key);
      return;
    }
    this.call(topic);
    const timer = setTimeout(() => {
      this.waiting.delete(key);
      if (this.again.delete(key)) this.add(topic);
    }, pauseOf(topic));
    this.waiting.set(key, timer);
  }
}
