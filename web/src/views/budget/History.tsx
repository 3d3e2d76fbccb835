import { useQuery } from "@tanstack/react-query";
import { get } from "../../api/client";
import type { Budget, Posting } from "../../api/types";
import { useNow } from "../../app/now";
import { CommandHint } from "../../parts/CommandHint";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import { Time } from "../../parts/Time";
import { WideBox } from "../../parts/WideBox";
import { formatMinutes } from "../../text/format";
import { BurnChart } from "./BurnChart";
import { burnOf } from "./burn";

const limit = 500;
const shown = 100;

/** A project's use against its plan, and each movement, newest first. */
export function History({ budget }: { budget: Budget }) {
  const now = useNow();
  const { project } = budget;
  const postings = useQuery({
    queryKey: ["postings", project],
    queryFn: ({ signal }) =>
      get("/api/v1/projects/{project}/budget/postings", {
        path: { project },
        query: { limit },
        signal,
      }),
  });
  const list = postings.data?.postings ?? [];
  return (
    <>
      <section className="card">
        <header>
          <h2>Use of {project}</h2>
          <span className="grow" />
          <CommandHint command={`lockstep budget forecast ${project}`} />
        </header>
        {list.length > 0 && <BurnChart burn={burnOf(budget, list, now)} now={now} />}
      </section>
      <section className="card">
        <header>
          <h2>History of {project}</h2>
          <span className="grow" />
          <CommandHint command={`lockstep budget history ${project}`} />
        </header>
        {postings.isError && <ErrorBox error={postings.error} />}
        {postings.isSuccess && list.length === 0 && <Empty title="Nothing was granted yet" />}
        {list.length > 0 && <Postings list={list.slice(0, shown)} project={project} />}
        {list.length > shown && (
          <p className="muted more-postings">The newest {shown} movements; the command has all.</p>
        )}
      </section>
    </>
  );
}

function Postings({ list, project }: { list: readonly Posting[]; project: string }) {
  return (
    <WideBox label="History">
      <table className="plain">
        <thead>
          <tr>
            <th>Time</th>
            <th>Kind</th>
            <th>From</th>
            <th>To</th>
            <th className="number">Device time</th>
            <th>By</th>
            <th>Attempt</th>
            <th>Reason</th>
          </tr>
        </thead>
        <tbody>
          {list.map((posting) => (
            <tr key={posting.id}>
              <td>
                <Time at={posting.time} />
              </td>
              <td>{posting.kind}</td>
              <td className="muted">{account(posting.from, posting.from_project, project)}</td>
              <td className="muted">{account(posting.to, posting.to_project, project)}</td>
              <td className="number">{formatMinutes(Number(posting.minutes))}</td>
              <td>{posting.by || <span className="faint">Lockstep</span>}</td>
              <td>{posting.attempt}</td>
              <td className="muted">{posting.reason}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </WideBox>
  );
}

function account(name: string, owner: string, project: string): string {
  return owner && owner !== project ? `${name} of ${owner}` : name;
}
