import { useMemo, useState } from "react";
import type { ClusterMap, Host, Queue } from "../../api/types";
import { Link, runPath } from "../../app/router";
import { colorsOf, type HostBox, layOut } from "./layout";

interface Props {
  hosts: readonly Host[];
  map: ClusterMap | undefined;
  queue: Queue | undefined;
}

/** The map drawn: a square for each device, in the colour of its run. */
export function HostMap({ hosts, map, queue }: Props) {
  const groups = useMemo(() => layOut(hosts, map, queue), [hosts, map, queue]);
  const colors = useMemo(() => colorsOf(groups), [groups]);
  const names = useMemo(
    () => new Map(queue?.allocations.map(({ run, name }) => [run, name])),
    [queue],
  );
  const [over, setOver] = useState("");
  return (
    <section className="card">
      <header>
        <h2>Hosts and devices</h2>
        <span className="grow" />
        <span className="muted legend">
          <i className="device free" /> free <i className="device foreign" /> another project's run
        </span>
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
                  colors={colors}
                  names={names}
                  over={over}
                  setOver={setOver}
                />
              ))}
            </div>
          </div>
        ))}
      </div>
    </section>
  );
}

interface HostProps {
  box: HostBox;
  colors: Map<string, number>;
  names: Map<string, string>;
  over: string;
  setOver: (run: string) => void;
}

function HostCard({ box: { host, kind, devices }, colors, names, over, setOver }: HostProps) {
  const bad = host.unavailable !== "" || host.state !== "open";
  return (
    <div className={`host ${bad ? "bad" : ""}`} title={host.unavailable || host.reason}>
      <div className="row">
        <strong className="clip">{host.id}</strong>
        <span className="grow" />
        {bad ? (
          <span className={`badge ${host.unavailable ? "bad" : "warn"}`}>
            {host.unavailable ? "unavailable" : host.state}
          </span>
        ) : (
          <span className="faint">
            {host.devices - host.free}/{host.devices} {kind === "gpu" ? "GPUs" : "cores"}
          </span>
        )}
      </div>
      <div className="devices">
        {devices.map((run, index) => {
          const key = `${index}`;
          if (run === null) return <i key={key} className="device free" title="free" />;
          if (run === "")
            return <i key={key} className="device foreign" title="a run of another project" />;
          return (
            <Link
              key={key}
              href={runPath(run)}
              className={`device c${colors.get(run) ?? 0} ${over && over !== run ? "dim" : ""}`}
              title={`${run} ${names.get(run) ?? ""}`}
              aria-label={`Device ${index}: ${run}`}
              onMouseEnter={() => setOver(run)}
              onMouseLeave={() => setOver("")}
            />
          );
        })}
      </div>
      <div className="host-runs">
        {host.runs.slice(0, 3).map((run) => (
          <Link
            key={run}
            className="clip"
            href={runPath(run)}
            onMouseEnter={() => setOver(run)}
            onMouseLeave={() => setOver("")}
          >
            <i className={`swatch c${colors.get(run) ?? 0}`} />
            <span className="clip">{names.get(run) ?? run}</span>
          </Link>
        ))}
        {host.runs.length > 3 && <span className="faint">and {host.runs.length - 3} more</span>}
        {host.runs.length === 0 && <span className="faint">idle</span>}
      </div>
    </div>
  );
}
