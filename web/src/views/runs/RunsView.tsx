import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { compareMax } from "../../api/queries";
import { quickLimit, useRunPages } from "../../api/runPages";
import type { Run } from "../../api/types";
import { shellWord, useViewCommand } from "../../app/command";
import { useKeys } from "../../app/keyboard";
import { navigate, runPath, useParameter } from "../../app/router";
import { useViewTitle } from "../../app/title";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import { isField } from "../../query/fields";
import { groupRuns, rowsOf } from "../../query/group";
import { answeredRuns, daemonFilter, daemonQuery, selectRuns } from "../../query/match";
import { parseQuery, setGroup, toggleSort } from "../../query/parse";
import { BulkBar } from "./BulkBar";
import { ColumnMenu } from "./ColumnMenu";
import { GroupMenu } from "./GroupMenu";
import { QueryLine } from "./QueryLine";
import { RunsTable } from "./RunsTable";
import "./runs.css";
import { placeColumn, useColumns } from "./useColumns";
import { useSelection } from "./useSelection";
import { ViewMenu } from "./ViewMenu";

/** All runs that the reader may see: one query line, one table, and actions on the selected ones. */
export function RunsView() {
  const [text, setText] = useParameter("q");
  const deferred = useDeferredValue(text);
  const query = useMemo(() => parseQuery(deferred), [deferred]);
  // The first runs that are there are selected at once, until the daemon has answered.
  const asked = useAsked(text);
  const filter = useMemo(() => daemonFilter(asked), [asked]);
  const rested = useRested(asked);
  const rests = rested === asked || query.group !== null;
  const list = useRunPages(filter, rests);
  const all = list.runs;
  const metrics = useMemo(() => metricNames(all), [all]);
  const isAnswered = list.isSuccess && !list.isPlaceholderData && asked === text;
  const isSelected = isAnswered && deferred === text && filter.query !== undefined;
  const isPending = !isSelected && daemonQuery(text) !== "";
  // A letter is shown, and the daemon asked, before other rows are selected.
  const isPreview = useDeferredValue(isPending) && isPending;
  const read = useMemo(() => (isPreview ? all.slice(0, previewMax) : all), [isPreview, all]);
  const isOfDaemon = !isPreview && filter.query !== undefined;
  const runs = useMemo(
    () => (isOfDaemon ? answeredRuns(read, query) : selectRuns(read, query)),
    [isOfDaemon, read, query],
  );
  // An answer has the runs that the daemon looked at, maybe none. Groups are of the runs that are
  // there.
  const { more, loadMore } = list;
  const needsMore = isAnswered && (runs.length < shownMin || namesSetting(query.group));
  const reads = rests && needsMore && more && all.length < readMax;
  useEffect(() => {
    if (reads) loadMore(query.group === null ? quickLimit : undefined);
  }, [reads, loadMore, query.group]);
  const [open, setOpen] = useState<Set<string>>(new Set());
  const groups = useMemo(() => query.group && groupRuns(runs, query.group), [runs, query.group]);
  const rows = useMemo(() => rowsOf(runs, groups || null, open), [runs, groups, open]);
  const toggleGroup = (key: string) => setOpen((before) => toggled(before, key));
  const [layout, setLayout] = useColumns();
  const chosen = useSelection(all, runs, list, deferred, readMax);
  const { selected } = chosen;
  const [cursor, setCursor] = useState(-1);
  useViewTitle("Runs");
  useViewCommand(commandFor(daemonQuery(deferred)));

  const row = rows[cursor];
  const current = row?.kind === "run" ? row.run : undefined;
  const step = (by: number) => setCursor(Math.max(0, Math.min(rows.length - 1, cursor + by)));
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    Enter: () => {
      if (row?.kind === "group") toggleGroup(row.group.key);
      else if (row) navigate(runPath(row.run.id));
    },
    x: () =>
      current &&
      chosen.set(({ [current.id]: was, ...rest }) =>
        was ? rest : { ...rest, [current.id]: true },
      ),
    c: () => selected.length > 1 && selected.length <= compareMax && compare(selected),
    Escape: chosen.clear,
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
        <span className="muted runs-count" aria-live="polite" aria-busy={isPending}>
          {countText(runs.length, read.length, list.more || read.length < all.length)}
        </span>
        {list.more && !list.isQuick && (
          <button
            type="button"
            className="button"
            disabled={list.loading}
            title="Read the next 1,000 runs of the list"
            onClick={() => list.loadMore()}
          >
            Load more
          </button>
        )}
        <ViewMenu view={{ query: text, ...layout }} />
        <GroupMenu
          runs={all}
          group={query.group ?? ""}
          choose={(field) => {
            setText(setGroup(text, field));
            setCursor(-1);
          }}
        />
        <ColumnMenu runs={all} layout={layout} change={setLayout} />
      </div>
      {list.isError && (
        <div className="runs-notice">
          <ErrorBox error={list.error} retry={() => void list.refetch()} />
        </div>
      )}
      {runs.length > 0 ? (
        <RunsTable
          rows={rows}
          toggleGroup={toggleGroup}
          layout={layout}
          moveColumn={(from, to) => setLayout(placeColumn(layout, from, to))}
          nearEnd={list.more ? () => list.loadMore() : undefined}
          sort={query.sort}
          toggleSort={(field) => setText(toggleSort(text, field))}
          selection={chosen.selection}
          setSelection={chosen.set}
          selected={chosen.share}
          toggleAll={chosen.toggleAll}
          cursor={cursor}
          setCursor={setCursor}
        />
      ) : (
        isAnswered && !more && <NoRuns filtered={text !== ""} clear={() => setText("")} />
      )}
      {selected.length > 0 && (
        <BulkBar
          runs={selected}
          rest={chosen.rest}
          compare={() => compare(selected)}
          clear={chosen.clear}
        />
      )}
    </>
  );
}

/** Runs that the page reads for groups by a setting, or to select all that match. */
const readMax = 20_000;
/** Runs that a letter typed selects before the daemon has answered: a few milliseconds. */
const previewMax = 2_000;
/** Fewer fill no table. */
const shownMin = 50;

function namesSetting(name: string | null): boolean {
  return name !== null && !isField(name);
}

/** Letters that come faster than this are one question to the daemon. */
const settleMilliseconds = 30;

/** A line that did not change for this time is read in full. */
const restMilliseconds = 400;

/** The text for the daemon: at once, or after a moment if it changes faster than it is asked. */
function useAsked(text: string): string {
  const [asked, setAsked] = useState(text);
  const changed = useRef(0);
  useEffect(() => {
    const isFast = performance.now() - changed.current < settleMilliseconds;
    changed.current = performance.now();
    if (!isFast) return setAsked(text);
    const timer = setTimeout(() => setAsked(text), settleMilliseconds);
    return () => clearTimeout(timer);
  }, [text]);
  return asked;
}

/** The text as it was when it last rested. */
function useRested(text: string): string {
  const [rested, setRested] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setRested(text), restMilliseconds);
    return () => clearTimeout(timer);
  }, [text]);
  return rested;
}

function toggled(before: ReadonlySet<string>, key: string): Set<string> {
  const after = new Set(before);
  if (!after.delete(key)) after.add(key);
  return after;
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

function countText(shown: number, all: number, more: boolean): string {
  const limited = more ? `the first ${all.toLocaleString("en-US")} runs` : null;
  if (shown !== all)
    return `${shown.toLocaleString("en-US")} of ${limited ?? all.toLocaleString("en-US")}`;
  return limited ?? `${all.toLocaleString("en-US")} ${all === 1 ? "run" : "runs"}`;
}

function metricNames(runs: readonly Run[]): string[] {
  const names = new Set<string>();
  for (const run of runs.slice(0, 200)) for (const name of Object.keys(run.latest)) names.add(name);
  return [...names].sort();
}

function commandFor(query: string): string {
  return query ? `lockstep ps -q ${shellWord(query)}` : "lockstep ps";
}
