import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get } from "../../api/client";
import type { Budget } from "../../api/types";
import { useViewCommand } from "../../app/command";
import { useViewTitle } from "../../app/title";
import { usePause } from "../../live/live";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import { Time } from "../../parts/Time";
import { WideBox } from "../../parts/WideBox";
import { formatMinutes } from "../../text/format";
import "./budget.css";
import { Postings } from "./Postings";
import { Usage } from "./Usage";

/** The device-minutes of projects: left, held and spent, with their history. */
export function BudgetView() {
  const budgets = useQuery({
    queryKey: ["budgets"],
    queryFn: ({ signal }) => get("/api/v1/budgets", { signal }),
    refetchInterval: usePause(15_000),
  });
  const [chosen, setChosen] = useState("");
  useViewTitle("Budget");
  useViewCommand("lockstep budget show");
  const list = budgets.data?.budgets ?? [];
  return (
    <div className="view stack">
      <div className="view-head">
        <h1>Budget</h1>
      </div>
      {budgets.isError && <ErrorBox error={budgets.error} retry={() => void budgets.refetch()} />}
      {budgets.isSuccess && list.length === 0 && (
        <section className="card">
          <Empty
            title="No project has a budget"
            command="lockstep budget grant PROJECT 30000 --until 2027-03-31"
          >
            Runs are not limited by device time. An administrator can grant a project
            device-minutes.
          </Empty>
        </section>
      )}
      {list.length > 0 && (
        <section className="card">
          <header>
            <h2>Projects</h2>
          </header>
          <WideBox label="Projects">
            <table className="plain">
              <thead>
                <tr>
                  <th>Project</th>
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
                {list.map((budget) => (
                  <Row
                    key={budget.project}
                    budget={budget}
                    chosen={chosen === budget.project}
                    choose={setChosen}
                  />
                ))}
              </tbody>
            </table>
          </WideBox>
        </section>
      )}
      {chosen && <Postings project={chosen} />}
      <Usage />
    </div>
  );
}

function Row(props: { budget: Budget; chosen: boolean; choose: (project: string) => void }) {
  const { budget, chosen, choose } = props;
  const grant = budget.grants[0];
  return (
    <>
      <tr className={chosen ? "chosen" : ""}>
        <td>
          <button
            type="button"
            className="budget-name"
            onClick={() => choose(chosen ? "" : budget.project)}
          >
            {budget.project}
          </button>
        </td>
        <td>
          {budget.limited ? (
            <UsedBar budget={budget} />
          ) : (
            <span className="faint">not limited</span>
          )}
        </td>
        <td className="number">{formatMinutes(Number(budget.spent_minutes))}</td>
        <td className="number">{formatMinutes(Number(budget.held_minutes))}</td>
        <td className="number">{formatMinutes(Number(budget.available_minutes))}</td>
        <td className="number">{formatMinutes(Number(budget.minutes_per_day))}</td>
        <td>
          <Time at={budget.runs_out} />
        </td>
        <td>
          <Time at={grant?.ends} />
        </td>
      </tr>
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
    </>
  );
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
