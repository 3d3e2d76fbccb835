import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { documentQuery, useRemoveDocument } from "../../api/documents";
import type { DocumentView } from "../../api/types";
import { useViewCommand } from "../../app/command";
import { Link, navigate } from "../../app/router";
import { useViewTitle } from "../../app/title";
import { say, sayError } from "../../app/toasts";
import { Dialog } from "../../parts/Dialog";
import { ErrorBox } from "../../parts/ErrorBox";
import { Time } from "../../parts/Time";
import { printLight } from "./print";
import { ReportEditor } from "./ReportEditor";
import "./report.css";

const Text = lazy(() => import("./Text"));

/** A report: to read, to print, and for those who may, to change. `new`: one that is not saved. */
export default function ReportView({ id }: { id: string }) {
  if (id === "new") return <NewReport />;
  return <SavedReport key={id} id={id} />;
}

function NewReport() {
  useViewTitle("New report");
  useViewCommand("lockstep report save FILE");
  return <ReportEditor saved={null} close={() => navigate("/reports")} />;
}

function SavedReport({ id }: { id: string }) {
  const report = useQuery(documentQuery(id));
  const [edited, setEdited] = useState(false);
  useViewTitle(report.data?.name ?? "Report");
  useViewCommand(`lockstep report show ${id}`);
  if (report.isError) {
    return (
      <div className="view">
        <ErrorBox error={report.error} retry={() => void report.refetch()} />
      </div>
    );
  }
  if (!report.data) return <div className="view" />;
  if (edited) return <ReportEditor saved={report.data} close={() => setEdited(false)} />;
  return <Read report={report.data} edit={() => setEdited(true)} />;
}

function Read({ report, edit }: { report: DocumentView; edit: () => void }) {
  const [asked, setAsked] = useState(false);
  return (
    <div className="view report">
      <div className="view-head">
        <h1>{report.name}</h1>
        <span className="grow" />
        <button type="button" className="button" onClick={copyAddress}>
          Copy the link
        </button>
        <button type="button" className="button" onClick={printLight}>
          Print
        </button>
        {report.may_change && (
          <button type="button" className="button" onClick={edit}>
            Edit
          </button>
        )}
        {report.may_change && (
          <button type="button" className="button danger" onClick={() => setAsked(true)}>
            Remove
          </button>
        )}
      </div>
      <p className="muted report-facts">
        <Link className="link" href="/reports">
          Reports
        </Link>{" "}
        · {report.project} · {report.user} · changed <Time at={report.changed} />
      </p>
      <Suspense fallback={null}>
        <Text text={report.text} />
      </Suspense>
      {asked && <RemoveDialog report={report} close={() => setAsked(false)} />}
    </div>
  );
}

function copyAddress(): void {
  const url = location.origin + location.pathname;
  navigator.clipboard
    .writeText(url)
    .then(() => say("Copied. All that may read the project can open the link."), sayError);
}

function RemoveDialog({ report, close }: { report: DocumentView; close: () => void }) {
  const remove = useRemoveDocument();
  return (
    <Dialog title="Remove the report" close={close}>
      <div className="body">
        <h2>Remove {report.name}?</h2>
        <p className="muted">Its text is deleted, and its link leads nowhere. Its runs stay.</p>
        <div className="dialog-actions">
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button
            type="button"
            className="button danger"
            onClick={() =>
              remove.mutate(report.id, {
                onSuccess: () => navigate("/reports"),
                onError: sayError,
              })
            }
          >
            Remove
          </button>
        </div>
      </div>
    </Dialog>
  );
}
