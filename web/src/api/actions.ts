// What a reader does to runs. Each action then reads the run and the lists again.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { say, sayError } from "../app/toasts";
import { get, post } from "./client";
import { splitId } from "./queries";
import type { Annotation, Run } from "./types";

export type Act = "stop" | "resume" | "hold" | "release" | "remove";

const done: Record<Act, string> = {
  stop: "stops",
  resume: "is queued again",
  hold: "is held",
  release: "is released",
  remove: "is removed",
};

function act(id: string, name: Act): Promise<unknown> {
  const options = { path: splitId(id) };
  if (name === "stop") return post("/api/v1/runs/{project}/{number}/stop", {}, options);
  if (name === "resume") return post("/api/v1/runs/{project}/{number}/resume", {}, options);
  if (name === "hold") return post("/api/v1/runs/{project}/{number}/hold", {}, options);
  if (name === "release") return post("/api/v1/runs/{project}/{number}/release", {}, options);
  return post("/api/v1/runs/{project}/{number}/remove", undefined as never, options);
}

/** A browser has six connections to a host, and drops calls if thousands wait for them. */
const callsMax = 6;

async function forEach(
  ids: readonly string[],
  call: (id: string) => Promise<unknown>,
): Promise<PromiseSettledResult<unknown>[]> {
  const results: PromiseSettledResult<unknown>[] = [];
  const left = [...ids];
  const work = async () => {
    for (let id = left.shift(); id !== undefined; id = left.shift())
      results.push(...(await Promise.allSettled([call(id)])));
  };
  await Promise.all(Array.from({ length: callsMax }, work));
  return results;
}

function sayFailures(results: readonly PromiseSettledResult<unknown>[]): void {
  const failures = results.filter((result) => result.status === "rejected");
  for (const failure of failures.slice(0, 3)) sayError(failure.reason);
}

export function useAct() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ ids, name }: { ids: string[]; name: Act }) => {
      const results = await forEach(ids, (id) => act(id, name));
      const failures = results.filter(({ status }) => status === "rejected");
      if (ids.length > failures.length) {
        const count = ids.length - failures.length;
        say(
          ids.length === 1
            ? `${ids[0]} ${done[name]}.`
            : `${count} of ${ids.length} runs: ${name} done.`,
        );
      }
      sayFailures(results);
    },
    onSettled: () => refresh(client),
  });
}

function refresh(client: ReturnType<typeof useQueryClient>): void {
  for (const key of ["runs", "run", "queue", "hosts"]) {
    void client.invalidateQueries({ queryKey: [key] });
  }
}

export function useAnnotate() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: async ({ ids, change }: { ids: string[]; change: (run: Run) => Annotation }) => {
      const results = await forEach(ids, async (id) => {
        const path = splitId(id);
        const run = await get("/api/v1/runs/{project}/{number}", { path });
        await post("/api/v1/runs/{project}/{number}/annotate", change(run), { path });
      });
      sayFailures(results);
    },
    onSettled: () => refresh(client),
  });
}

export function useExtend() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ id, extension }: { id: string; extension: string }) =>
      post("/api/v1/runs/{project}/{number}/extend", { extension }, { path: splitId(id) }),
    onSuccess: (_, { id, extension }) => say(`${id} has ${extension} more.`),
    onError: sayError,
    onSettled: () => refresh(client),
  });
}
