import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { post } from "../../api/client";
import { shellWord } from "../../app/command";
import { say } from "../../app/toasts";
import { CommandHint } from "../../parts/CommandHint";
import { Dialog } from "../../parts/Dialog";
import { ErrorBox } from "../../parts/ErrorBox";

export type Movement = "grant" | "withdraw" | "move";

const words: Record<Movement, { title: string; label: string; text: string }> = {
  grant: {
    title: "Grant device time",
    label: "Grant",
    text: "What is left of it at its end expires. A project without a grant is not limited.",
  },
  withdraw: {
    title: "Withdraw device time",
    label: "Withdraw",
    text: "What running attempts hold stays.",
  },
  move: {
    title: "Move device time",
    label: "Move",
    text: "To another project; its grants end as these do.",
  },
};

interface Props {
  movement: Movement;
  /** Empty: the reader names it. */
  project: string;
  projects: readonly string[];
  close: () => void;
}

interface Values {
  project: string;
  to: string;
  hours: string;
  ends: string;
  reason: string;
}

/** A grant, a withdrawal, or a movement between projects. */
export function MoveDialog({ movement, project, projects, close }: Props) {
  const [values, setValues] = useState<Values>({
    project,
    to: "",
    hours: "",
    ends: inDays(90),
    reason: "",
  });
  const set = (change: Partial<Values>) => setValues({ ...values, ...change });
  const client = useQueryClient();
  const { title, label, text } = words[movement];
  const change = useMutation({
    mutationFn: () => send(movement, values),
    onSuccess: () => {
      say(`${values.hours} h: ${movement} done.`);
      close();
    },
    onSettled: () => {
      for (const key of ["budgets", "postings"]) void client.invalidateQueries({ queryKey: [key] });
    },
  });
  return (
    <Dialog title={title} close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate();
        }}
      >
        <h2>{title}</h2>
        <p className="muted">{text}</p>
        <div className="fields">
          <Project
            label="Project"
            value={values.project}
            set={(value) => set({ project: value })}
          />
          {movement === "move" && (
            <Project label="To the project" value={values.to} set={(to) => set({ to })} />
          )}
          <label className="field">
            Device-hours
            <input
              className="input"
              type="number"
              min="0.1"
              step="any"
              required
              value={values.hours}
              onChange={({ target }) => set({ hours: target.value })}
            />
          </label>
          {movement === "grant" && (
            <label className="field">
              Ends
              <input
                className="input"
                type="date"
                required
                value={values.ends}
                onChange={({ target }) => set({ ends: target.value })}
              />
            </label>
          )}
        </div>
        <datalist id="budget-projects">
          {projects.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <label className="field">
          Reason, for the history
          <input
            className="input"
            value={values.reason}
            onChange={({ target }) => set({ reason: target.value })}
          />
        </label>
        {change.isError && <ErrorBox error={change.error} />}
        <div className="dialog-actions">
          <CommandHint command={commandOf(movement, values)} />
          <span className="grow" />
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button main" disabled={change.isPending}>
            {label}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Project(props: { label: string; value: string; set: (value: string) => void }) {
  return (
    <label className="field">
      {props.label}
      <input
        className="input"
        required
        list="budget-projects"
        value={props.value}
        onChange={({ target }) => props.set(target.value)}
      />
    </label>
  );
}

function inDays(days: number): string {
  return new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
}

function send(movement: Movement, { project, to, hours, ends, reason }: Values): Promise<unknown> {
  const path = { project };
  const minutes = Number(hours) * 60;
  if (movement === "grant")
    return post(
      "/api/v1/projects/{project}/budget/grants",
      { minutes, ends: `${ends}T00:00:00Z`, reason },
      { path },
    );
  if (movement === "withdraw")
    return post("/api/v1/projects/{project}/budget/withdrawals", { minutes, reason }, { path });
  return post("/api/v1/projects/{project}/budget/moves", { to, minutes, reason }, { path });
}

export function commandOf(movement: Movement, values: Values): string {
  const minutes = values.hours ? String(Math.round(Number(values.hours) * 60)) : "MINUTES";
  const parts = ["lockstep budget", movement, shellWord(values.project || "PROJECT")];
  if (movement === "move") parts.push(shellWord(values.to || "TO"));
  parts.push(minutes);
  if (movement === "grant") parts.push("--until", values.ends);
  if (values.reason) parts.push("--reason", shellWord(values.reason));
  return parts.join(" ");
}
