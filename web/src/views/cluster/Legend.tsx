import { fillOf, isMeasure, levelNames, type Mode, scaleEnds } from "./shades";

interface Props {
  mode: Mode;
  users: Map<string, string>;
  colors: Map<string, number>;
}

/** The meaning of the colours. */
export function Legend({ mode, users, colors }: Props) {
  if (isMeasure(mode)) {
    const [from, to] = scaleEnds[mode];
    return (
      <span className="muted legend">
        {from}
        <span className="scale">
          {[0, 0.25, 0.5, 0.75, 1].map((level) => (
            <i key={level} style={{ background: fillOf(mode, level) }} />
          ))}
        </span>
        {to} <i className="device unmeasured" /> not measured
      </span>
    );
  }
  if (mode === "health" || mode === "fragmentation")
    return (
      <span className="muted legend">
        {levelNames[mode].map(([level, name]) => (
          <span key={level} className="row">
            <i className={`device level-${level}`} /> {name}
          </span>
        ))}
      </span>
    );
  const named = new Map([...users].map(([run, user]) => [user, colors.get(run) ?? 0]));
  return (
    <span className="muted legend">
      {mode === "user" &&
        [...named].slice(0, 6).map(([user, color]) => (
          <span key={user} className="row">
            <i className={`device c${color}`} /> {user}
          </span>
        ))}
      <i className="device free" /> free <i className="device foreign" /> another project's run
    </span>
  );
}
