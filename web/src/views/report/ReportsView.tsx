import { useQuery } from "@tanstack/react-query";
import { documentsQuery } from "../../api/documents";
import { maySubmitTo, useWhoAmI } from "../../api/session";
import { useViewCommand } from "../../app/command";
import { Link } from "../../app/router";
import { useViewTitle } from "../../app/title";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import { Time } from "../../parts/Time";
import { WideBox } from "../../parts/WideBox";
import "./report.css";

/** All reports that the reader may read; the ones that changed last come first. */
export default function ReportsView() {
  const reports = useQuery(documentsQuery("report"));
  const who = useWhoAmI();
  const mayWrite = who.data ? maySubmitTo(who.data).length > 0 : false;
  useViewTitle("Reports");
  useViewCommand("lockstep report ls");
  return (
    <div className="view stack">
      <div className="view-head">
        <h1>Reports</h1>
        <span className="grow" />
        {mayWrite && (
          <Link className="button main" href="/reports/new">
            New report
          </Link>
        )}
      </div>
      {reports.isError && <ErrorBox error={reports.error} retry={() => void reports.refetch()} />}
      {reports.data?.length === 0 && (
        <section className="card">
          <Empty title="No reports yet">
            A report is a page of text and live charts. Write one here, or begin with a comparison
            of runs.
          </Empty>
        </section>
      )}
      {reports.data && reports.data.length > 0 && (
        <section className="card">
          <WideBox label="Reports">
            <table className="plain">
              <thead>
                <tr>
                  <th>Name</th>
                  <th>Project</th>
                  <th>By</th>
                  <th>Changed</th>
                </tr>
              </thead>
              <tbody>
                {reports.data.map(({ id, name, project, user, changed }) => (
                  <tr key={id}>
                    <td>
                      <Link className="run-name link" href={`/reports/${id}`}>
                        {name}
                      </Link>
                    </td>
                    <td>{project}</td>
                    <td>{user}</td>
                    <td>
                      <Time at={changed} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </WideBox>
        </section>
      )}
    </div>
  );
}
