import type { RowSelectionState } from "@tanstack/react-table";
import { useDeferredValue, useMemo, useState } from "react";
import { runsLimit, useRuns } from "../../api/queries";
import type { Run } from "../../api/types";
import { shellWord, useViewCommand } from "../../app/command";
import { useKeys } from "../../app/keyboard";
import { navigate, runPath, useParameter } from "../../app/router";
import { useViewTitle } from "../../app/title";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import { selectRuns, serverFilter } from "../../query/match";
import { parseQuery, toggleSort } from "../../query/parse";
import { BulkBar } from "./BulkBar";
import { ColumnMenu } from "./ColumnMenu";
import { QueryLine } from "./QueryLine";
import { RunsTable } from "./RunsTable";
import "./runs.css";
import { useColumns } from "./useColumns";

const none: Run[] = [];

/** All runs that the reader may see: one query line, one table, and actions on the selected ones. */
export function RunsView() {
  const [text, setText] = useParameter("q");
  const deferred = useDeferredValue(text);
  const query = useMemo(() => parseQuery(deferred), [deferred]);
  const filter = useMemo(() => serverFilter(deferred), [deferred]);
  const list = useRuns(filter);
  const all = list.data?.runs ?? none;
  const runs = useMemo(() => selectRuns(all, query), [all, query]);
  const metrics = useMemo(() => metricNames(all), [all]);
  const [columns, setColumns] = useColumns();
  const [selection, setSelection] = useState<RowSelectionState>({});
  const [cursor, setCursor] = useState(-1);
  const selected = useMemo(() => all.filter((run) => selection[run.id]), [all, selection]);
  useViewTitle("Runs");
  useViewCommand(commandFor(filter));

  const current = runs[cursor];
  const step = (by: number) => setCursor(Math.max(0, Math.min(runs.length - 1, cursor + by)));
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    Enter: () => current && navigate(runPath(current.id)),
    x: () =>
      current &&
      setSelection(({ [current.id]: was, ...rest }) =>
        was ? rest : { ...rest, [current.id]: true },
      ),
    c: () => selected.length > 1 && compare(selected),
    Escape: () => setSelection({}),
  });

  return (
    <>
      <div className="runs-tools">
        <h1 className="hidden-label">Runs</h1>
        <QueryLine
          text={text}
          change={(next) => {
            setText(next);
            setCursor(-1);
          }}
          problem={query.problem}
          metrics={metrics}
        />
        <span className="muted runs-count">{countText(runs.length, all.length)}</span>
        <ColumnMenu runs={all} columns={columns} change={setColumns} />
      </div>
      {list.isError && (
        <div className="runs-notice">
          <ErrorBox error={list.error} retry={() => void list.refetch()} />
        </div>
      )}
      {runs.length > 0 ? (
        <RunsTable
          runs={runs}
          columns={columns}
          sort={query.sort}
          toggleSort={(field) => setText(toggleSort(text, field))}
          selection={selection}
          setSelection={setSelection}
          cursor={cursor}
          setCursor={setCursor}
        />
      ) : (
        list.isSuccess && <NoRuns filtered={text !== ""} clear={() => setText("")} />
      )}
      {selected.length > 0 && (
        <BulkBar runs={selected} compare={() => compare(selected)} clear={() => setSelection({})} />
      )}
    </>
  );
}

function NoRuns({ filtered, clear }: { filtered: boolean; clear: () => void }) {
  if (!filtered) {
    return (
      <Empty title="No runs yet" command="lockstep run -n 2 -g 2 --timeout 10m -- python train.py">
        Start one from a shell. It appears here at once.
      </Empty>
    );
  }
  return (
    <div className="empty">
      <strong>No run matches</strong>
      <p>Remove a term of the query, or all of them.</p>
      <button type="button" className="button" onClick={clear}>
        Clear the query
      </button>
    </div>
  );
}

function compare(runs: Run[]): void {
  navigate(`/compare?runs=${runs.map((run) => run.id).join(",")}`);
}

function countText(shown: number, all: number): string {
  const limited = all >= runsLimit ? `newest ${runsLimit.toLocaleString("en-US")} runs` : null;
  if (shown !== all)
    return `${shown.toLocaleString("en-US")} of ${limited ?? all.toLocaleString("en-US")}`;
  return limited ?? `${all.toLocaleString("en-US")} ${all === 1 ? "run" : "runs"}`;
}

function metricNames(runs: readonly Run[]): string[] {
  const names = new Set<string>();
  for (const run of runs.slice(0, 200)) for (const name of Object.keys(run.latest)) names.add(name);
  return [...names].sort();
}

function commandFor(filter: { project?: string; state?: string; tag?: string }): string {
  const options = Object.entries(filter).map(
    ([name, value]) => ` --${name} ${shellWord(value ?? "")}`,
  );
  return `lockstep ps${options.join("")}`;
}
