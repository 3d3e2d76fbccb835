import { useQuery } from "@tanstack/react-query";
import { usePause } from "../live/live";
import { get } from "./client";
import { splitId } from "./queries";
import type { Finding, Run } from "./types";

const none: readonly Finding[] = [];

/** What the daemon found wrong with a run, newest first. */
export function useFindings(run: Run): readonly Finding[] {
  const query = useQuery({
    queryKey: ["findings", run.id],
    queryFn: ({ signal }) =>
      get("/api/v1/runs/{project}/{number}/findings", { path: splitId(run.id), signal }),
    refetchInterval: usePause(10_000),
    enabled: run.attempts.length > 0,
  });
  return query.data?.findings ?? none;
}
