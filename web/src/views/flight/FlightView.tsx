import { useQueries } from "@tanstack/react-query";
import { get } from "../../api/client";
import { splitId, useRun } from "../../api/queries";
import { useViewCommand } from "../../app/command";
import { useNow } from "../../app/now";
import { Link, runPath } from "../../app/router";
import { useViewTitle } from "../../app/title";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import "./flight.css";
import { GroupLanes } from "./GroupLanes";
import { groupsOf } from "./lanes";
import { readRecord } from "./record";

/** More nodes than this are not asked: each record of a node is up to 768 KiB. */
const nodesMax = 32;
const wait = 10;

/** What the ranks of a run do together: their collectives as lanes in time, the stuck one first. */
export default function FlightView({ id }: { id: string }) {
  const run = useRun(id);
  const now = useNow();
  useViewTitle("Flight", id);
  useViewCommand(`lockstep flight ${id}`);
  const nodes = run.data?.attempts.at(-1)?.nodes ?? [];
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
        <h1>Flight</h1>
        <Link className="muted" href={runPath(id)}>
          {run.data?.name ?? id} <span className="faint">{id}</span>
        </Link>
        <span className="grow" />
        <button type="button" className="button" disabled={asked} onClick={refetch}>
          {asked ? "Asking the nodes …" : "Ask again"}
        </button>
      </div>
      {(run.error || error) && <ErrorBox error={run.error ?? error} />}
      {nodes.length > nodesMax && (
        <p className="muted">The first {nodesMax} nodes; the command has all.</p>
      )}
      {!asked && run.data && groups.length === 0 && (
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
