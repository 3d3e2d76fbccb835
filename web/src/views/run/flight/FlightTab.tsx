import { useQueries } from "@tanstack/react-query";
import { get } from "../../../api/client";
import { splitId } from "../../../api/queries";
import type { Run } from "../../../api/types";
import { useNow } from "../../../app/now";
import { Empty } from "../../../parts/Empty";
import { ErrorBox } from "../../../parts/ErrorBox";
import "./flight.css";
import { GroupLanes } from "./GroupLanes";
import { groupsOf } from "./lanes";
import { readRecord } from "./record";

/** More nodes than this are not asked: each record of a node is up to 768 KiB. */
const nodesMax = 32;
const wait = 10;

/** What the ranks of a run do together: their collectives as lanes in time, the stuck one first. */
export function FlightTab({ run }: { run: Run }) {
  const { id } = run;
  const now = useNow();
  const nodes = run.attempts.at(-1)?.nodes ?? [];
  const { records, asked, delivered, error, refetch } = useQueries({
    queries: nodes.slice(0, nodesMax).map(({ index }) => ({
      queryKey: ["flight", id, index],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        get("/api/v1/runs/{project}/{number}/flight", {
          path: splitId(id),
          query: { node: index, wait },
          signal,
        }),
      staleTime: Number.POSITIVE_INFINITY,
      refetchOnWindowFocus: false,
    })),
    combine: (answers) => ({
      records: answers.flatMap(({ data }) =>
        (data?.records ?? []).flatMap(({ bytes }) => readRecord(bytes) ?? []),
      ),
      asked: answers.some(({ isFetching }) => isFetching),
      delivered: answers.flatMap(({ data }) => data?.delivered ?? []).sort()[0],
      error: answers.find((answer) => answer.error)?.error ?? null,
      refetch: () => {
        for (const answer of answers) void answer.refetch();
      },
    }),
  });
  const groups = groupsOf(records);
  const until = delivered ? Math.min(now, Date.parse(delivered)) : now;
  return (
    <div className="view stack">
      <div className="view-head">
        <p className="muted">
          The newest collectives of each rank, as lanes in time. A rank that holds up others is
          first.
        </p>
        <span className="grow" />
        <button type="button" className="button" disabled={asked} onClick={refetch}>
          {asked ? "Asking the nodes …" : "Ask again"}
        </button>
      </div>
      {error && <ErrorBox error={error} />}
      {nodes.length > nodesMax && (
        <p className="muted">The first {nodesMax} nodes; the command has all.</p>
      )}
      {!asked && groups.length === 0 && (
        <Empty title="No rank has recorded a collective" command={`lockstep flight ${id}`}>
          Ranks record what they do in groups of the backend "lockstep".
        </Empty>
      )}
      {groups.map((group) => (
        <GroupLanes key={group.key} group={group} now={until} />
      ))}
    </div>
  );
}
