import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get } from "../../api/client";
import { useWhoAmI } from "../../api/session";
import type { WhoAmI } from "../../api/types";
import { useViewCommand } from "../../app/command";
import { useParameter } from "../../app/router";
import { useViewTitle } from "../../app/title";
import { usePause } from "../../live/live";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import { Accounts } from "./Accounts";
import "./budget.css";
import { History } from "./History";
import { Idle } from "./Idle";
import { MoveDialog, type Movement } from "./MoveDialog";
import { Usage } from "./Usage";

/** The device time of projects: accounts with grants, use against plan, forecast, and history. */
export function BudgetView() {
  const budgets = useQuery({
    queryKey: ["budgets"],
    queryFn: ({ signal }) => get("/api/v1/budgets", { signal }),
    refetchInterval: usePause(15_000),
  });
  const who = useWhoAmI();
  const [chosen, choose] = useParameter("project");
  const [movement, setMovement] = useState<Movement | "">("");
  useViewTitle("Budget");
  useViewCommand(chosen ? `lockstep budget forecast ${chosen}` : "lockstep budget show");
  const list = budgets.data?.budgets ?? [];
  const budget = list.find(({ project }) => project === chosen);
  return (
    <div className="view stack">
      <div className="view-head">
        <h1>Budget</h1>
        <span className="grow" />
        {movementsOf(who.data, chosen, list.length > 0).map(([name, label]) => (
          <button type="button" className="button" key={name} onClick={() => setMovement(name)}>
            {label}
          </button>
        ))}
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
            <h2>Accounts</h2>
          </header>
          <Accounts budgets={list} chosen={chosen} choose={choose} />
        </section>
      )}
      {budget && <History budget={budget} />}
      <Usage />
      <Idle />
      {movement && (
        <MoveDialog
          movement={movement}
          project={chosen}
          projects={list.map(({ project }) => project)}
          close={() => setMovement("")}
        />
      )}
    </div>
  );
}

/** What the daemon would not refuse: administrators grant and withdraw, managers move. */
function movementsOf(
  who: WhoAmI | null | undefined,
  project: string,
  has: boolean,
): [Movement, string][] {
  if (!who) return [];
  const manages = project ? who.projects[project] === "manager" : false;
  const all: [Movement, string, boolean][] = [
    ["grant", "Grant", who.admin],
    ["move", "Move", has && (who.admin || manages)],
    ["withdraw", "Withdraw", has && who.admin],
  ];
  return all.flatMap(([name, label, may]) => (may ? [[name, label]] : []));
}
