import { useQueryClient } from "@tanstack/react-query";
import { type KeyboardEvent, useMemo, useState } from "react";
import type { Run, RunList } from "../api/types";
import { Dialog } from "../parts/Dialog";
import { StateBadge } from "../parts/StateBadge";
import { navigate, runPath } from "./router";
import { toggleTheme } from "./theme";

interface Entry {
  key: string;
  label: string;
  hint: string;
  run?: Run;
  open: () => void;
}

const views: Entry[] = [
  ["Runs", "/"],
  ["Failed runs", "/?q=state:failed"],
  ["Waiting runs", "/?q=state:queued"],
  ["Submit a run", "/submit"],
  ["Reports", "/reports"],
  ["New report", "/reports/new"],
  ["Cluster", "/cluster"],
  ["Budget", "/budget"],
  ["Settings", "/settings"],
].map(([label = "", path = ""]) => ({
  key: path,
  label,
  hint: "view",
  open: () => navigate(path),
}));
views.push({ key: "theme", label: "Dark or light", hint: "action", open: toggleTheme });

/** Goes to any view, or to a run by its name or number. */
export function Palette({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const client = useQueryClient();
  const entries = useMemo(() => find(text, loadedRuns(client)), [text, client]);
  function choose(entry: Entry | undefined) {
    if (!entry) return;
    close();
    entry.open();
  }
  function onKey(event: KeyboardEvent) {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) setAt(Math.max(0, Math.min(entries.length - 1, at + move)));
    else if (event.key === "Enter") choose(entries[at]);
    else return;
    event.preventDefault();
  }
  return (
    <Dialog title="Go to" close={close}>
      <div className="palette">
        <input
          autoFocus
          className="palette-input"
          placeholder="Go to a run or a view"
          aria-label="Go to a run or a view"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKey}
        />
        <ul>
          {entries.map((entry, index) => (
            <li key={entry.key}>
              <button
                type="button"
                className={index === at ? "at" : ""}
                onMouseMove={() => setAt(index)}
                onClick={() => choose(entry)}
              >
                <span className="grow clip">{entry.label}</span>
                {entry.run && <StateBadge run={entry.run} />}
                <span className="faint">{entry.hint}</span>
              </button>
            </li>
          ))}
        </ul>
      </div>
    </Dialog>
  );
}

function loadedRuns(client: ReturnType<typeof useQueryClient>): Run[] {
  const lists = client.getQueriesData<RunList>({ queryKey: ["runs"] });
  return lists.flatMap(([, list]) => list?.runs ?? []);
}

/** Of the run that is shown. */
function viewsOfRun(): Entry[] {
  const [, project, number] = /^\/runs\/([^/]+)\/(\d+)/.exec(location.pathname) ?? [];
  if (!project || !number) return [];
  const id = `${decodeURIComponent(project)}/${number}`;
  return [
    ["Flight: collectives of", `/runs/${id}/flight`] as const,
    ["On the cluster:", `/cluster?run=${id}`] as const,
  ].map(([label, path]) => ({
    key: path,
    label: `${label} ${id}`,
    hint: "view",
    open: () => navigate(path),
  }));
}

function find(text: string, runs: Run[]): Entry[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (label: string) => words.every((word) => label.toLowerCase().includes(word));
  const found = [...new Map(runs.map((run) => [run.id, run])).values()]
    .filter((run) => has(`${run.id} ${run.name} ${run.state}`))
    .slice(0, 8)
    .map((run) => ({
      key: run.id,
      label: run.name,
      hint: run.id,
      run,
      open: () => navigate(runPath(run.id)),
    }));
  const matching = [...viewsOfRun(), ...views].filter((view) => has(view.label));
  return words.length ? [...found, ...matching] : [...matching, ...found];
}
