import { useQueries } from "@tanstack/react-query";
import { lazy, Suspense, useDeferredValue, useEffect, useRef, useState } from "react";
import { useSaveDocument } from "../../api/documents";
import { runQuery } from "../../api/queries";
import { maySubmitTo, useWhoAmI } from "../../api/session";
import type { DocumentView, Run } from "../../api/types";
import { navigate, useParameter } from "../../app/router";
import { ErrorBox } from "../../parts/ErrorBox";
import { mainMetric } from "../compare/axes";
import { asMarkdown, differencesOf } from "../compare/differences";
import { draftOf, writeChartBlock } from "./chartBlock";

const Text = lazy(() => import("./Text"));

interface Props {
  saved: DocumentView | null;
  close: () => void;
}

/** The text of a report beside what it will look like. */
export function ReportEditor({ saved, close }: Props) {
  const who = useWhoAmI();
  const projects = who.data ? maySubmitTo(who.data) : [];
  const runs = useNamedRuns(saved === null);
  const [name, setName] = useState(saved?.name ?? "");
  const [chosen, setProject] = useState(saved?.project ?? "");
  const [typed, setText] = useState<string | null>(saved?.text ?? null);
  const text = typed ?? (runs.length > 0 ? draft(runs) : "");
  const shown = useDeferredValue(text);
  const project = chosen || runs[0]?.spec.project || projects[0] || "";
  const save = useSaveDocument();
  const area = useRef<HTMLTextAreaElement>(null);
  useWarning(typed !== null && typed !== saved?.text);
  function submit() {
    save.mutate(
      { kind: "report", project, name, text, id: saved?.id, version: saved?.version },
      {
        onSuccess: ({ id }) => {
          if (saved) close();
          else navigate(`/reports/${id}`, "replace");
        },
      },
    );
  }
  function insert() {
    const ids = runs.length > 0 ? runs.map((run) => run.id) : [`${project}/1`];
    const block = `\n${writeChartBlock(mainMetric(runs) ?? "train/loss", ids)}`;
    const at = area.current?.selectionStart ?? text.length;
    setText(text.slice(0, at) + block + text.slice(at));
    area.current?.focus();
  }
  return (
    <form
      className="view report-editor"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <div className="view-head">
        <input
          className="input grow report-name"
          maxLength={150}
          placeholder="Name of the report"
          aria-label="Name of the report"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <select
          className="input"
          aria-label="Project"
          title="All that may read the project read the report"
          value={project}
          disabled={saved !== null}
          onChange={(event) => setProject(event.target.value)}
        >
          {[...new Set([...(project ? [project] : []), ...projects])].map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
        <button type="button" className="button" onClick={insert}>
          Insert a chart
        </button>
        <button type="button" className="button" onClick={close}>
          Cancel
        </button>
        <button
          type="submit"
          className="button main"
          disabled={!name.trim() || !project || save.isPending}
        >
          Save
        </button>
      </div>
      {save.isError && <ErrorBox error={save.error} />}
      <div className="report-halves">
        <textarea
          ref={area}
          className="input mono"
          spellCheck
          aria-label="Text of the report, in Markdown"
          placeholder={
            "## What was tried\n\nText in Markdown, and charts:\n\n```chart\nmetric: train/loss\nruns: demo/1, demo/2\n```"
          }
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keys. */}
        <div className="card report-preview" role="region" aria-label="Preview" tabIndex={0}>
          <Suspense fallback={null}>
            <Text text={shown} />
          </Suspense>
        </div>
      </div>
    </form>
  );
}

/** The runs of the address, for the draft of a new report. */
function useNamedRuns(enabled: boolean): Run[] {
  const [text] = useParameter("runs");
  const ids = enabled ? text.split(",").filter(Boolean).slice(0, 20) : [];
  return useQueries({
    queries: ids.map((id) => runQuery(id)),
    // All or none: the draft is written once.
    combine: (results) =>
      results.every(({ data }) => data) ? results.flatMap(({ data }) => (data ? [data] : [])) : [],
  });
}

function draft(runs: readonly Run[]): string {
  const ids = runs.map((run) => run.id);
  const rows = differencesOf(runs).filter(({ section }) => section !== "Code");
  const main = mainMetric(runs);
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.latest)))].sort();
  const metrics = [...(main ? [main] : []), ...names.filter((each) => each !== main)];
  return draftOf(ids, metrics, asMarkdown(runs, rows.slice(0, 30)));
}

/** The browser asks before a text that is not saved is lost. */
function useWarning(changed: boolean): void {
  useEffect(() => {
    if (!changed) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", warn);
    return () => window.removeEventListener("beforeunload", warn);
  }, [changed]);
}
