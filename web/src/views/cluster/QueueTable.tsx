import type { Queue } from "../../api/types";
import { useNow } from "../../app/now";
import { Link, runPath } from "../../app/router";
import { CommandHint } from "../../parts/CommandHint";
import { Time } from "../../parts/Time";
import { WideBox } from "../../parts/WideBox";
import { Timeline } from "./Timeline";

/** The runs that wait, in order, with the reason and the expected start of each. */
export function QueueTable({ queue }: { queue: Queue }) {
  const now = useNow();
  return (
    <section className="card">
      <header>
        <h2>Queue</h2>
        <span className="grow" />
        <CommandHint command="lockstep queue" />
      </header>
      <Timeline queue={queue} now={now} />
      {queue.waiting.length === 0 ? (
        <p className="muted queue-empty">No run waits.</p>
      ) : (
        <WideBox label="Queue">
          <table className="plain">
            <thead>
              <tr>
                <th className="number">#</th>
                <th>Run</th>
                <th>User</th>
                <th className="number">Devices</th>
                <th>Class</th>
                <th>Waits since</th>
                <th>Expected start</th>
                <th>Reason</th>
              </tr>
            </thead>
            <tbody>
              {queue.waiting.map((run, index) => (
                <tr key={run.run || index}>
                  <td className="number faint">{index + 1}</td>
                  <td>
                    <RunName id={run.run} name={run.name} />
                  </td>
                  <td>{run.user || "–"}</td>
                  <td className="number">
                    {run.nodes > 1 ? `${run.nodes} × ${run.devices}` : run.devices}
                  </td>
                  <td>{run.class}</td>
                  <td>
                    <Time at={run.since} />
                  </td>
                  <td>
                    {run.held ? (
                      <span className="badge warn hollow">Held</span>
                    ) : (
                      <Time at={run.expected_start} />
                    )}
                  </td>
                  <td className="wide-text muted">{run.reason}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </WideBox>
      )}
      {queue.left_out > 0 && <p className="muted queue-empty">and {queue.left_out} more runs</p>}
    </section>
  );
}

export function RunName({ id, name }: { id: string; name: string }) {
  if (!id) return <span className="faint">a run of another project</span>;
  return (
    <Link className="run-name" href={runPath(id)}>
      {name || id} <span className="faint run-id">{id}</span>
    </Link>
  );
}
