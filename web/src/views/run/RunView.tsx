import { useEffect, useRef } from "react";
import { ApiError } from "../../api/client";
import { useRun } from "../../api/queries";
import type { Run } from "../../api/types";
import { shellWord, useViewCommand } from "../../app/command";
import { useKeys } from "../../app/keyboard";
import { Link, navigate, runPath, useAddress, useParameter } from "../../app/router";
import { useViewTitle } from "../../app/title";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import { ArtifactsTab } from "./artifacts/ArtifactsTab";
import { ChartsTab } from "./charts/ChartsTab";
import { CodeTab } from "./code/CodeTab";
import { FlightTab } from "./flight/FlightTab";
import { LogsTab } from "./logs/LogsTab";
import { NodesTab } from "./nodes/NodesTab";
import { RunHeader } from "./RunHeader";
import { RunNotices } from "./RunNotices";
import { SettingsTab } from "./settings/SettingsTab";
import { TelemetryTab } from "./telemetry/TelemetryTab";
import "./run.css";

const tabs = [
  ["", "Charts"],
  ["telemetry", "Telemetry"],
  ["logs", "Logs"],
  ["nodes", "Nodes"],
  ["flight", "Flight"],
  ["artifacts", "Artifacts"],
  ["settings", "Settings"],
  ["code", "Code"],
] as const;

/** One run: its state at the top, and below it a tab for each thing to look at. */
export default function RunView({ id, tab }: { id: string; tab: string }) {
  const run = useRun(id);
  const move = (by: number) => {
    const at = tabs.findIndex(([name]) => name === tab);
    const next = tabs[(at + by + tabs.length) % tabs.length];
    if (next) navigate(runPath(id, next[0]), "replace");
  };
  useKeys({
    "[": () => move(-1),
    "]": () => move(1),
    l: () => navigate(runPath(id, "logs")),
    Escape: () => navigate("/"),
  });
  const tabsBox = useRef<HTMLElement>(null);
  const isLoaded = run.data !== undefined;
  // A phone shows some of the tabs. The call moves nothing else.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another tab is another current link.
  useEffect(() => {
    const current = tabsBox.current?.querySelector("[aria-current]");
    current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [tab, isLoaded]);
  useViewTitle(...(run.data ? [run.data.name, id] : [id]));
  useRunCommand(id, tab);
  if (run.isError) return <RunError id={id} error={run.error} retry={() => void run.refetch()} />;
  if (!run.data) return <div className="view" />;
  return (
    <div className="run">
      <RunHeader run={run.data} lost={run.lost} />
      <RunNotices run={run.data} />
      <nav className="tabs" aria-label="Of this run" ref={tabsBox}>
        <TabLinks id={id} tab={tab} />
      </nav>
      <Tab run={run.data} tab={tab} />
    </div>
  );
}

/** Charts and telemetry share their axis and zoom. */
function TabLinks({ id, tab }: { id: string; tab: string }) {
  const search = useAddress(() => location.search);
  return tabs.map(([name, label]) => (
    <Link
      key={name}
      href={runPath(id, name) + (name === "" || name === "telemetry" ? search : "")}
      aria-current={name === tab ? "page" : undefined}
    >
      {label}
    </Link>
  ));
}

function Tab({ run, tab }: { run: Run; tab: string }) {
  if (tab === "logs") return <LogsTab run={run} />;
  if (tab === "nodes") return <NodesTab run={run} />;
  if (tab === "flight") return <FlightTab run={run} />;
  if (tab === "artifacts") return <ArtifactsTab run={run} />;
  if (tab === "code") return <CodeTab run={run} />;
  if (tab === "settings") return <SettingsTab run={run} />;
  if (tab === "telemetry") return <TelemetryTab run={run} />;
  return <ChartsTab run={run} />;
}

function RunError({ id, error, retry }: { id: string; error: unknown; retry: () => void }) {
  if (error instanceof ApiError && error.status === 404) {
    return (
      <Empty title={`There is no run ${id}`} command="lockstep ps">
        It may have been removed, or be in a project that you may not read.
      </Empty>
    );
  }
  return (
    <div className="view">
      <ErrorBox error={error} retry={retry} />
    </div>
  );
}

function useRunCommand(id: string, tab: string): void {
  const [find] = useParameter("find");
  const [rank] = useParameter("rank");
  useViewCommand(tab === "logs" ? logCommand(id, find, rank) : commandFor(id, tab));
}

function logCommand(id: string, find: string, rank: string): string {
  const options = `${rank ? ` --rank ${rank}` : ""}${find ? ` -i --grep ${shellWord(find)}` : ""}`;
  return `lockstep logs ${id}${options || " --follow"}`;
}

function commandFor(id: string, tab: string): string {
  if (tab === "telemetry") return `lockstep metrics ${id} --node 0`;
  if (tab === "flight") return `lockstep flight ${id}`;
  if (tab === "") return `lockstep plot ${id}`;
  return `lockstep show ${id}`;
}
