import { useMemo, useState } from "react";
import { useRuns } from "../../api/queries";
import type { ClusterMap, Host, Queue } from "../../api/types";
import { Link, runPath, useParameter } from "../../app/router";
import { Device } from "./Device";
import { HostMenu } from "./HostMenu";
import { Legend } from "./Legend";
import { colorsOf, colorsOfNames, type HostBox, layOut } from "./layout";
import { type Mode, modeOf, modes, type Reading } from "./shades";
import { useReadings } from "./useReadings";

interface Props {
  hosts: readonly Host[];
  map: ClusterMap | undefined;
  queue: Queue | undefined;
  mayManage: boolean;
}

/** What the cells of the map need to know of runs. */
export interface Runs {
  mode: Mode;
  colors: Map<string, number>;
  names: Map<string, string>;
  users: Map<string, string>;
  /** The run that is highlighted; empty: none. */
  shown: string;
  setOver: (run: string) => void;
}

/** The map drawn: a square for each device. */
export function HostMap({ hosts, map, queue, mayManage }: Props) {
  const [chosen, setChosen] = useParameter("color");
  const [pinned, setPinned] = useParameter("run");
  const [over, setOver] = useState("");
  const mode = modeOf(chosen);
  const groups = useMemo(() => layOut(hosts, map, queue), [hosts, map, queue]);
  const users = useUsers();
  const runColors = useMemo(() => colorsOf(groups), [groups]);
  const colors = mode === "user" ? colorsOfNames(users) : runColors;
  const names = useMemo(
    () => new Map(queue?.allocations.map(({ run, name }) => [run, name])),
    [queue],
  );
  const readings = useReadings(queue, mode === "use" || mode === "power" || mode === "temperature");
  const runs: Runs = { mode, colors, names, users, shown: over || pinned, setOver };
  return (
    <section className="card">
      <header className="wraps">
        <h2>Hosts and devices</h2>
        {pinned && (
          <span className="tag">
            {pinned}{" "}
            <button
              type="button"
              aria-label={`Show all runs, not only ${pinned}`}
              onClick={() => setPinned("")}
            >
              ×
            </button>
          </span>
        )}
        <span className="grow" />
        <Legend mode={mode} users={users} colors={colors} />
        <label className="row muted">
          Colour by
          <select
            className="input"
            value={mode}
            onChange={({ target }) => setChosen(target.value === "run" ? "" : target.value)}
          >
            {modes.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
      </header>
      <div className="cluster-map">
        {groups.map((group) => (
          <div key={`${group.pod}/${group.leaf}`}>
            <div className="group-name">
              {group.pod}
              {group.leaf && <span className="faint"> / {group.leaf}</span>}
            </div>
            <div className="hosts">
              {group.hosts.map((box) => (
                <HostCard
                  key={box.host.id}
                  box={box}
                  runs={runs}
                  readings={readings.get(box.host.id)}
                  mayManage={mayManage}
                />
              ))}
            </div>
          </div>
        ))}
      </div>
    </section>
  );
}

/** The user of each running run that the reader may see. */
function useUsers(): Map<string, string> {
  const running = useRuns({ state: "running" });
  const runs = running.data?.runs;
  return useMemo(() => new Map(runs?.map((run) => [run.id, run.origin.user])), [runs]);
}

interface HostProps {
  box: HostBox;
  runs: Runs;
  readings: Map<string, Reading[]> | undefined;
  mayManage: boolean;
}

function HostCard({ box, runs, readings, mayManage }: HostProps) {
  const { host, kind, devices } = box;
  const bad = host.unavailable !== "";
  const kept = host.state !== "open";
  return (
    <div
      className={`host ${bad ? "bad" : kept ? "warn" : ""}`}
      title={host.unavailable || host.reason}
    >
      <div className="row">
        <strong className="clip">{host.id}</strong>
        <span className="grow" />
        {bad || kept ? (
          <span className={`badge ${bad ? "bad" : "warn"}`}>
            {bad ? "unavailable" : host.state}
          </span>
        ) : (
          <span className="faint">
            {host.devices - host.free}/{host.devices} {unit(kind, host.devices)}
          </span>
        )}
        {mayManage && <HostMenu host={host} />}
      </div>
      <div className="devices">
        {devices.map((run, index) => (
          <Device
            key={`${index}`}
            index={index}
            run={run}
            host={host}
            runs={runs}
            reading={run ? readings?.get(run)?.[index - devices.indexOf(run)] : undefined}
          />
        ))}
      </div>
      <div className="host-runs">
        {host.runs.slice(0, 3).map((run) => (
          <Link
            key={run}
            className={`clip ${runs.shown && runs.shown !== run ? "dim" : ""}`}
            href={runPath(run)}
            onMouseEnter={() => runs.setOver(run)}
            onMouseLeave={() => runs.setOver("")}
          >
            {(runs.mode === "run" || runs.mode === "user") && (
              <i className={`swatch c${runs.colors.get(run) ?? 0}`} />
            )}
            <span className="clip">{runs.names.get(run) ?? run}</span>
            {runs.mode === "user" && <span className="faint">{runs.users.get(run)}</span>}
          </Link>
        ))}
        {host.runs.length > 3 && <span className="faint">and {host.runs.length - 3} more</span>}
        {host.runs.length === 0 && <span className="faint">idle</span>}
      </div>
    </div>
  );
}

function unit(kind: "gpu" | "core", count: number): string {
  const word = kind === "gpu" ? "GPU" : "core";
  return count === 1 ? word : `${word}s`;
}
