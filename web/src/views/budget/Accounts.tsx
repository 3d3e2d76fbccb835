import { Fragment } from "react";
import type { Budget } from "../../api/types";
import { Time } from "../../parts/Time";
import { WideBox } from "../../parts/WideBox";
import { formatMinutes } from "../../text/format";

interface Props {
  budgets: readonly Budget[];
  chosen: string;
  choose: (project: string) => void;
}

/** The accounts of all projects: each opens to its grants, the first to end in front. */
export function Accounts({ budgets, chosen, choose }: Props) {
  const sum = (of: (budget: Budget) => number) =>
    formatMinutes(budgets.reduce((total, budget) => total + of(budget), 0));
  return (
    <WideBox label="Accounts">
      <table className="plain accounts">
        <thead>
          <tr>
            <th>Account</th>
            <th className="budget-bar-column">Used</th>
            <th className="number">Spent</th>
            <th className="number">Held</th>
            <th className="number">Left</th>
            <th className="number">A day</th>
            <th>Lasts until</th>
            <th>Grants end</th>
          </tr>
        </thead>
        <tbody>
          <tr className="total">
            <td>All projects</td>
            <td />
            <td className="number">{sum((budget) => Number(budget.spent_minutes))}</td>
            <td className="number">{sum((budget) => Number(budget.held_minutes))}</td>
            <td className="number">{sum((budget) => Number(budget.available_minutes))}</td>
            <td className="number">{sum((budget) => Number(budget.minutes_per_day))}</td>
            <td />
            <td />
          </tr>
          {budgets.map((budget) => (
            <Fragment key={budget.project}>
              <Project budget={budget} chosen={chosen === budget.project} choose={choose} />
              {chosen === budget.project && <Grants budget={budget} />}
              {budget.warning && (
                <tr>
                  <td colSpan={8}>
                    <div className="notice warn">
                      <strong>{budget.project}</strong>
                      <span>{budget.warning}</span>
                    </div>
                  </td>
                </tr>
              )}
            </Fragment>
          ))}
        </tbody>
      </table>
    </WideBox>
  );
}

function Project(props: { budget: Budget; chosen: boolean; choose: (project: string) => void }) {
  const { budget, chosen, choose } = props;
  return (
    <tr className={chosen ? "chosen" : ""}>
      <td className="level-1">
        <button
          type="button"
          className="budget-name"
          aria-expanded={chosen}
          onClick={() => choose(chosen ? "" : budget.project)}
        >
          <span className="twist">{chosen ? "▾" : "▸"}</span> {budget.project}
        </button>
      </td>
      <td>
        {budget.limited ? <UsedBar budget={budget} /> : <span className="faint">not limited</span>}
      </td>
      <td className="number">{formatMinutes(Number(budget.spent_minutes))}</td>
      <td className="number">{formatMinutes(Number(budget.held_minutes))}</td>
      <td className="number">{formatMinutes(Number(budget.available_minutes))}</td>
      <td className="number">{formatMinutes(Number(budget.minutes_per_day))}</td>
      <td>{budget.runs_out ? <Time at={budget.runs_out} /> : <span className="faint">–</span>}</td>
      <td>
        <Time at={budget.grants[0]?.ends} />
      </td>
    </tr>
  );
}

function Grants({ budget }: { budget: Budget }) {
  return budget.grants.map((grant, index) => (
    <tr key={`${grant.ends}${index}`} className="grant">
      <td className="level-2">Grant of {formatMinutes(Number(grant.granted_minutes))}</td>
      <td colSpan={3} />
      <td className="number">{formatMinutes(Number(grant.left_minutes))}</td>
      <td colSpan={2} />
      <td>
        <Time at={grant.ends} />
      </td>
    </tr>
  ));
}

function UsedBar({ budget }: { budget: Budget }) {
  const spent = Number(budget.spent_minutes);
  const held = Number(budget.held_minutes);
  const total = spent + held + Number(budget.available_minutes);
  const share = (minutes: number) => `${total > 0 ? (minutes / total) * 100 : 0}%`;
  const level = budget.used_percent >= 95 ? "bad" : budget.used_percent >= 80 ? "warn" : "";
  return (
    <span className="row">
      <span className={`budget-bar grow ${level}`}>
        <i style={{ width: share(spent) }} />
        <i className="held" style={{ width: share(held) }} />
      </span>
      <span className="muted progress-text">{budget.used_percent} %</span>
    </span>
  );
}
