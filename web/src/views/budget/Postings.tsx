import { useQuery } from "@tanstack/react-query";
import { get } from "../../api/client";
import { CommandHint } from "../../parts/CommandHint";
import { ErrorBox } from "../../parts/ErrorBox";
import { Time } from "../../parts/Time";
import { WideBox } from "../../parts/WideBox";
import { formatMinutes } from "../../text/format";

/** The history of a project's budget, newest first. */
export function Postings({ project }: { project: string }) {
  const postings = useQuery({
    queryKey: ["postings", project],
    queryFn: ({ signal }) =>
      get("/api/v1/projects/{project}/budget/postings", {
        path: { project },
        query: { limit: 100 },
        signal,
      }),
  });
  return (
    <section className="card">
      <header>
        <h2>History of {project}</h2>
        <span className="grow" />
        <CommandHint command={`lockstep budget history ${project}`} />
      </header>
      {postings.isError && <ErrorBox error={postings.error} />}
      <WideBox label="History">
        <table className="plain">
          <thead>
            <tr>
              <th>Time</th>
              <th>Kind</th>
              <th className="number">Device time</th>
              <th>By</th>
              <th>Attempt</th>
              <th>Reason</th>
            </tr>
          </thead>
          <tbody>
            {postings.data?.postings.map((posting) => (
              <tr key={posting.id}>
                <td>
                  <Time at={posting.time} />
                </td>
                <td>{posting.kind}</td>
                <td className="number">{formatMinutes(Number(posting.minutes))}</td>
                <td>{posting.by}</td>
                <td>{posting.attempt}</td>
                <td className="muted">{posting.reason}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </WideBox>
    </section>
  );
}
