import { WideBox } from "../../../parts/WideBox";
import { formatBytes, formatSeconds } from "../../../text/format";
import { type Group, type Lane, windowOf } from "./lanes";
import type { Operation } from "./record";

const newest = 60;
const lanesMax = 256;

/** The newest operations of each rank of a group, a lane each. */
export function GroupLanes({ group, now }: { group: Group; now: number }) {
  const [from, to] = windowOf(group, newest, now);
  const seen = group.lanes.length;
  const stuck = group.lanes.filter(({ held }) => held > 0);
  return (
    <section className="card">
      <header>
        <h2>{group.name}</h2>
        <span className="muted">
          {seen} of {group.size} ranks
        </span>
        <span className="grow" />
        <span className="muted">{span(to - from)}</span>
      </header>
      {stuck.length > 0 && (
        <div className="notice bad flight-notice">
          <strong>
            {stuck.length === 1 ? "A rank is stuck" : `${stuck.length} ranks are stuck`}
          </strong>
          <span>{stuck.slice(0, 3).map(reasonOf).join("; ")}</span>
        </div>
      )}
      <WideBox label={`Group ${group.name}`}>
        <div className="lanes">
          {group.lanes.slice(0, lanesMax).map((lane) => (
            <div className="lane" key={lane.rank}>
              <span className="clip" title={lane.host}>
                rank {lane.rank} <span className="faint">{lane.host}</span>
              </span>
              <span className="lane-mark">
                {lane.held > 0 ? (
                  <span className="badge bad">stuck</span>
                ) : lane.late !== undefined ? (
                  <span className="badge warn" title="median delay at the entry of collectives">
                    late {span(lane.late)}
                  </span>
                ) : null}
              </span>
              <LaneBars lane={lane} from={from} to={to} now={now} />
            </div>
          ))}
        </div>
      </WideBox>
      {seen > lanesMax && <p className="muted more-lanes">and {seen - lanesMax} more ranks</p>}
    </section>
  );
}

function reasonOf(lane: Lane): string {
  const ranks = lane.held === 1 ? "1 rank waits" : `${lane.held} ranks wait`;
  return `rank ${lane.rank} on ${lane.host} has entered ${lane.entered} collectives, and ${ranks} in the next`;
}

function LaneBars({ lane, from, to, now }: { lane: Lane; from: number; to: number; now: number }) {
  const x = (time: number) => ((time - from) / (to - from)) * 1000;
  return (
    <svg className="lane-bars" viewBox="0 0 1000 18" preserveAspectRatio="none" role="img">
      <title>The operations of rank {lane.rank}</title>
      {lane.operations.slice(-newest).map((each) => {
        if (each.started === undefined) return null;
        const isOpen = each.state === "started";
        const begin = Math.max(0, x(each.started));
        const end = Math.min(1000, x(isOpen ? now : (each.ended ?? each.started)));
        return (
          <rect
            key={`${each.sequence}${each.name}${each.started}`}
            className={isOpen ? "open" : each.state}
            x={begin}
            y={2}
            width={Math.max(1.5, end - begin)}
            height={14}
            rx={1}
          >
            <title>{titleOf(each, now)}</title>
          </rect>
        );
      })}
    </svg>
  );
}

function titleOf(each: Operation, now: number): string {
  const started = each.started ?? now;
  const parts = [
    `${each.name} ${each.sequence}${each.label ? ` (${each.label})` : ""}`,
    formatBytes(each.bytes),
    each.state === "started" ? `for ${span(now - started)}` : span((each.ended ?? now) - started),
  ];
  if (each.waitsFor !== undefined) parts.push(`waits for rank ${each.waitsFor}`);
  return parts.join("\n");
}

/** Milliseconds as text. */
function span(milliseconds: number): string {
  if (milliseconds < 1) return `${Math.round(milliseconds * 1000)} µs`;
  if (milliseconds < 1000) return `${milliseconds.toPrecision(3)} ms`;
  return formatSeconds(milliseconds / 1000);
}
