import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { post } from "../../api/client";
import { requestId } from "../../api/requestId";
import { maySubmitTo, useWhoAmI } from "../../api/session";
import { useViewCommand } from "../../app/command";
import { navigate, runPath } from "../../app/router";
import { useViewTitle } from "../../app/title";
import { Empty } from "../../parts/Empty";
import { ErrorBox } from "../../parts/ErrorBox";
import { Plan } from "./Plan";
import { commandOf, emptyFields, type Fields, type SubmittedSpec, specOf } from "./spec";
import "./submit.css";

/** A form for a run, with its plan before the button. */
export default function SubmitView() {
  const who = useWhoAmI();
  const projects = who.data ? maySubmitTo(who.data) : [];
  useViewTitle("Submit a run");
  if (who.data && projects.length === 0)
    return (
      <div className="view">
        <Empty title="You may submit to no project" command="lockstep project ls">
          A manager of a project can make you a member of it.
        </Empty>
      </div>
    );
  const usual = who.data?.default_project ?? "";
  return (
    <Form projects={projects} usual={projects.includes(usual) ? usual : (projects[0] ?? "")} />
  );
}

function Form({ projects, usual }: { projects: string[]; usual: string }) {
  const [fields, setFields] = useState<Fields>({ ...emptyFields, project: usual });
  const [id] = useState(requestId);
  const spec = specOf(fields);
  useViewCommand(commandOf(fields));
  const submit = useMutation({
    mutationFn: (ready: SubmittedSpec) =>
      post("/api/v1/runs", { spec: ready, origin: {}, request_id: id } as never),
    onSuccess: (run) => navigate(runPath(run.id)),
  });
  const input = (name: keyof Fields, more: Record<string, unknown> = {}) => (
    <input
      className="input"
      value={fields[name]}
      onChange={({ target }) => setFields({ ...fields, [name]: target.value })}
      {...more}
    />
  );
  const select = (name: keyof Fields, choices: readonly string[]) => (
    <select
      className="input"
      value={fields[name]}
      onChange={({ target }) => setFields({ ...fields, [name]: target.value })}
    >
      {choices.map((choice) => (
        <option key={choice}>{choice}</option>
      ))}
    </select>
  );
  return (
    <div className="view stack">
      <div className="view-head">
        <h1>Submit a run</h1>
      </div>
      <form
        className="submit-columns"
        onSubmit={(event) => {
          event.preventDefault();
          if (typeof spec !== "string") submit.mutate(spec);
        }}
      >
        <section className="card submit-card">
          <div className="fields">
            <Field label="Project">{select("project", projects)}</Field>
            <Field label="Name">{input("name", { placeholder: "that of the program" })}</Field>
          </div>
          <Field label="Command">
            <textarea
              className="input mono"
              rows={3}
              spellCheck={false}
              placeholder="python train.py --lr 3e-4"
              value={fields.command}
              onChange={({ target }) => setFields({ ...fields, command: target.value })}
            />
          </Field>
          <Field label="Folder in which the ranks start, on each host">
            {input("folder", { placeholder: "/home/ann/project", spellCheck: false })}
          </Field>
          <div className="fields">
            <Field label="Nodes">{input("nodes", { type: "number", min: 1 })}</Field>
            <Field label="Devices a node">{input("devices", { type: "number", min: 1 })}</Field>
            <Field label="Time limit">{input("timeout", { placeholder: "12h" })}</Field>
            <Field label="Class">{select("class", ["normal", "debug", "preemptible"])}</Field>
          </div>
          <details>
            <summary>Environment and more</summary>
            <div className="fields">
              <Field label="Environment">
                {select("environment", ["none", "venv", "conda", "image"])}
              </Field>
              <Field label="Its name or folder">
                {input("environmentName", { disabled: fields.environment === "none" })}
              </Field>
              <Field label="Retries">{input("retries", { type: "number", min: 0 })}</Field>
              <Field label="Priority">
                {input("priority", { type: "number", min: -100, max: 100 })}
              </Field>
            </div>
            <Field label="Variables, one NAME=VALUE a line">
              <textarea
                className="input mono"
                rows={3}
                spellCheck={false}
                value={fields.env}
                onChange={({ target }) => setFields({ ...fields, env: target.value })}
              />
            </Field>
          </details>
        </section>
        <section className="card submit-plan">
          <header>
            <h2>Plan</h2>
          </header>
          <Plan spec={spec} />
          {submit.isError && <ErrorBox error={submit.error} />}
          <button
            type="submit"
            className="button main"
            disabled={typeof spec === "string" || submit.isPending}
          >
            Submit
          </button>
        </section>
      </form>
    </div>
  );
}

function Field({ label, children }: { label: string; children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is the child.
    <label className="field">
      {label}
      {children}
    </label>
  );
}
