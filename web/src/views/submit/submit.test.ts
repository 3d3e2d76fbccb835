import { expect, it } from "vitest";
import { commandOf, emptyFields, specOf } from "./spec";

const fields = {
  ...emptyFields,
  project: "speech",
  command: "python train.py --name 'a b'",
  folder: "/home/ann",
};

it("the form is a specification, and the same command", () => {
  const values = { ...fields, nodes: "2", env: "LR=3e-4\n\nX=a=b", environment: "venv" as const };
  expect(specOf({ ...values, environmentName: "/opt/venv" })).toMatchObject({
    project: "speech",
    command: ["python", "train.py", "--name", "a b"],
    nodes: 2,
    timeout: "1h",
    env: { LR: "3e-4", X: "a=b" },
    venv: "/opt/venv",
  });
  expect(commandOf(values)).toBe(
    "lockstep run --detach --project speech -n 2 --timeout 1h --env LR=3e-4 --env X=a=b -- python train.py --name 'a b'",
  );
});

it("says what is missing", () => {
  expect(specOf({ ...fields, command: "" })).toContain("Type a command");
  expect(specOf({ ...fields, command: "python 'x" })).toContain("no end");
  expect(specOf({ ...fields, folder: "project" })).toContain("folder");
  expect(specOf({ ...fields, env: "no value" })).toContain("NAME=VALUE");
});
