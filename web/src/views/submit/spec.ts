// From the fields of the form to a run's specification and the command that submits the same. Pure.
import type { Spec } from "../../api/types";
import { shellWord } from "../../app/command";
import { joinWords, splitWords } from "../../text/words";

export interface Fields {
  project: string;
  name: string;
  command: string;
  nodes: string;
  devices: string;
  timeout: string;
  class: Spec["class"];
  folder: string;
  environment: "none" | "venv" | "conda" | "image";
  environmentName: string;
  env: string;
  retries: string;
  priority: string;
}

export const emptyFields: Fields = {
  project: "",
  name: "",
  command: "",
  nodes: "1",
  devices: "1",
  timeout: "1h",
  class: "normal",
  folder: "",
  environment: "none",
  environmentName: "",
  env: "",
  retries: "0",
  priority: "0",
};

export type SubmittedSpec = Partial<Spec> & { command: string[] };

/** A text: what is missing or cannot be read. */
export function specOf(fields: Fields): SubmittedSpec | string {
  const command = splitWords(fields.command);
  if (command === null) return "A quote in the command has no end.";
  if (command.length === 0) return "Type a command, such as: python train.py --lr 3e-4";
  if (!fields.folder.startsWith("/"))
    return "Type the folder in which the ranks start, such as /home/ann/project.";
  const env = envOf(fields.env);
  if (typeof env === "string") return env;
  const spec: SubmittedSpec = {
    project: fields.project,
    name: fields.name,
    command,
    nodes: Number(fields.nodes) || 1,
    devices: Number(fields.devices) || 1,
    class: fields.class,
    working_folder: fields.folder,
    env,
    retries: Number(fields.retries) || 0,
    priority: Number(fields.priority) || 0,
  };
  if (fields.timeout) spec.timeout = fields.timeout;
  const where = fields.environmentName.trim();
  if (where && fields.environment !== "none") spec[fields.environment] = where;
  return spec;
}

/** Lines NAME=VALUE. */
function envOf(text: string): Record<string, string> | string {
  const env: Record<string, string> = {};
  for (const line of text.split("\n").filter((each) => each.trim())) {
    const [, name, value] = /^\s*([A-Za-z_]\w*)=(.*)$/.exec(line) ?? [];
    if (!name || value === undefined) return `A variable is NAME=VALUE, not: ${line.trim()}`;
    env[name] = value;
  }
  return env;
}

export function commandOf(fields: Fields): string {
  const parts = ["lockstep run --detach"];
  const add = (option: string, value: string, usual: string) => {
    if (value && value !== usual) parts.push(option, shellWord(value));
  };
  add("--project", fields.project, "");
  add("--name", fields.name, "");
  add("-n", fields.nodes, "1");
  add("-g", fields.devices, "1");
  add("--timeout", fields.timeout, "");
  add("--class", fields.class, "normal");
  add("--retries", fields.retries, "0");
  add("--priority", fields.priority, "0");
  if (fields.environment !== "none") add(`--${fields.environment}`, fields.environmentName, "");
  for (const line of fields.env.split("\n").filter((each) => each.trim()))
    parts.push("--env", shellWord(line.trim()));
  parts.push("--", joinWords(splitWords(fields.command) ?? []) || "PROGRAM");
  return parts.join(" ");
}
