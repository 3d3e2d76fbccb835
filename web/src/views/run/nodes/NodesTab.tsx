import { useState } from "react";
import type { Attempt, Node, Rank, Run } from "../../../api/types";
import { shellWord } from "../../../app/command";
import { CommandHint } from "../../../parts/CommandHint";
import { Empty } from "../../../parts/Empty";
import { Elapsed, Time } from "../../../parts/Time";
import { WideBox } from "../../../parts/WideBox";
import { formatNumber } from "../../../text/format";
import { Events } from "./Events";
import "./nodes.css";

/** The attempts of a run, the nodes and ranks of one of them, checkpoints and events. */
export function NodesTab({ run }: { run: Run }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const attempt = run.attempts.find(({ epoch }) => epoch === chosen) ?? run.attempts.at(-1);
  if (!attempt) {
    return <Empty title="The run has no node yet" command={`lockstep why ${run.id}`} />;
  }
  return (
    <div className="view stack">
      <section className="card">
        <header>
          <h2>Attempts</h2>
        </header>
        <WideBox label="Attempts">
          <Attempts attempts={run.attempts} chosen={attempt} choose={setChosen} />
        </WideBox>
      </section>
      <section className="card">
        <header>
          <h2>Nodes and ranks of attempt {attempt.epoch}</h2>
        </header>
        <WideBox label="Nodes and ranks">
          <Nodes run={run} attempt={attempt} />
        </WideBox>
      </section>
      {run.checkpoints.length > 0 && <Checkpoints run={run} />}
      {run.events.length > 0 && <Events events={run.events} />}
    </div>
  );
}

function Attempts(props: {
  attempts: Attempt[];
  chosen: Attempt;
  choose: (epoch: number) => void;
}) {
  return (
    <table className="plain">
      <thead>
        <tr>
          <th className="index">Attempt</th>
          <th>State</th>
          <th>Cause</th>
          <th>Reason</th>
          <th>Hosts</th>
          <th>Started</th>
          <th className="number">Took</th>
        </tr>
      </thead>
      <tbody>
        {props.attempts.toReversed().map((attempt) => (
          <tr key={attempt.epoch} className={attempt === props.chosen ? "chosen" : ""}>
            <td className="index">
              <button type="button" className="command" onClick={() => props.choose(attempt.epoch)}>
                {attempt.epoch}
              </button>
            </td>
            <td>{attempt.state}</td>
            <td>
              <Cause cause={attempt.cause} />
            </td>
            <td className="wide-text">{attempt.reason || <span className="faint">–</span>}</td>
            <td className="muted">{hostsText(attempt.nodes)}</td>
            <td>
              <Time at={attempt.started} />
            </td>
            <td className="number">
              <Elapsed from={attempt.started} to={attempt.ended} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Cause({ cause }: { cause: Attempt["cause"] }) {
  if (cause === "none") return <span className="faint">–</span>;
  const kind =
    cause === "ok" ? "good" : ["moved", "paused", "cancelled"].includes(cause) ? "" : "bad";
  return <span className={`badge ${kind}`}>{cause.replaceAll("_", " ")}</span>;
}

function hostsText(nodes: Node[]): string {
  const hosts = nodes.map((node) => node.host);
  return hosts.length > 3
    ? `${hosts.slice(0, 3).join(", ")} and ${hosts.length - 3} more`
    : hosts.join(", ");
}

const shownRanks = 256;

function Nodes({ run, attempt }: { run: Run; attempt: Attempt }) {
  const late = new Set(run.late.map(({ rank }) => rank));
  const running = attempt.state === "running" && attempt === run.attempts.at(-1);
  let left = shownRanks;
  const nodes = attempt.nodes.map((node) => {
    const ranks = node.ranks.slice(0, Math.max(0, left));
    left -= ranks.length;
    return { node, ranks };
  });
  return (
    <table className="plain nodes">
      <thead>
        <tr>
          <th className="index">Rank</th>
          <th>State</th>
          <th className="number">Step</th>
          <th>Activity</th>
          <th className="number">Process</th>
          <th>Fault</th>
        </tr>
      </thead>
      {nodes.map(({ node, ranks }) => (
        <tbody key={node.index}>
          <tr className="node">
            <td colSpan={6}>
              <div className="row">
                <strong>{node.host}</strong>
                <span className="muted">
                  node {node.index}, {node.address || "no address yet"}, {node.state}
                </span>
                {node.unreachable_since && <span className="badge warn">no answer</span>}
                <span className="muted clip">{node.message || node.pending_reason}</span>
                <span className="grow" />
                {running && <CommandHint command={`lockstep ssh ${run.id}/${node.index}`} />}
              </div>
            </td>
          </tr>
          {ranks.map((rank) => (
            <RankRow key={rank.rank} rank={rank} late={late.has(rank.rank)} />
          ))}
        </tbody>
      ))}
    </table>
  );
}

function RankRow({ rank, late }: { rank: Rank; late: boolean }) {
  return (
    <tr>
      <td className="index">{rank.rank}</td>
      <td>
        <RankState rank={rank} />
      </td>
      <td className="number">{rank.step < 0 ? "–" : formatNumber(rank.step)}</td>
      <td>
        {rank.activity === "unknown" ? <span className="faint">–</span> : rank.activity}
        {late && <span className="badge warn lags">lags</span>}
        {rank.stalled_since && (
          <span className="muted">
            {" "}
            no step for <Elapsed from={rank.stalled_since} to={null} />
          </span>
        )}
      </td>
      <td className="number">{rank.pid || "–"}</td>
      <td className="wide-text">
        {rank.fault === "none" ? (
          <span className="faint">–</span>
        ) : (
          `${rank.fault.replaceAll("_", " ")}: ${rank.fault_text}`
        )}
      </td>
    </tr>
  );
}

function RankState({ rank }: { rank: Rank }) {
  if (rank.state === "running") return <span className="badge busy">running</span>;
  if (rank.state === "killed")
    return <span className="badge bad">killed by signal {rank.code}</span>;
  if (rank.state === "lost") return <span className="badge bad">lost</span>;
  return (
    <span className={`badge ${rank.code === 0 ? "good" : "bad"}`}>exited with {rank.code}</span>
  );
}

function Checkpoints({ run }: { run: Run }) {
  return (
    <section className="card">
      <header>
        <h2>Checkpoints</h2>
        <span className="grow" />
        <CommandHint command={`lockstep checkpoint ls ${shellWord(run.checkpoint_folder)}`} />
      </header>
      <WideBox label="Checkpoints">
        <table className="plain">
          <thead>
            <tr>
              <th className="index">Step</th>
              <th className="index">Attempt</th>
              <th>Saved</th>
              <th>Folder</th>
            </tr>
          </thead>
          <tbody>
            {run.checkpoints
              .toReversed()
              .slice(0, 20)
              .map((checkpoint) => (
                <tr key={`${checkpoint.epoch}.${checkpoint.step}`}>
                  <td className="index">{formatNumber(checkpoint.step)}</td>
                  <td className="index">{checkpoint.epoch}</td>
                  <td>
                    <Time at={checkpoint.time} />
                  </td>
                  <td className="wide-text">
                    <code>{checkpoint.path}</code>
                  </td>
                </tr>
              ))}
          </tbody>
        </table>
      </WideBox>
    </section>
  );
}
