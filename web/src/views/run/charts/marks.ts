import type { Finding, Run } from "../../../api/types";
import type { Mark } from "../../../charts/marks";

/** Checkpoints, later attempts, failures and findings, in the order of their times. */
export function marksOf(run: Run, findings: readonly Finding[]): Mark[] {
  const marks: Mark[] = run.checkpoints.map(({ step, time }) => ({
    kind: "checkpoint",
    time: Date.parse(time),
    step,
    label: `checkpoint of step ${step}`,
  }));
  for (const attempt of run.attempts) {
    if (attempt.started && attempt.epoch > 1) {
      const time = Date.parse(attempt.started);
      marks.push({ kind: "attempt", time, label: `attempt ${attempt.epoch} starts` });
    }
    if (attempt.ended && attempt.cause !== "ok" && attempt.cause !== "none") {
      marks.push({ kind: "failure", time: Date.parse(attempt.ended), label: attempt.reason });
    }
  }
  for (const { kind, since, text } of findings) {
    const label = `${kind.replaceAll("_", " ")}: ${text}`;
    marks.push({ kind: "finding", time: Date.parse(since), label });
  }
  return marks.sort((left, right) => left.time - right.time);
}

/** Zero of the relative axis: the start of the run. */
export function originOf(run: Run): number {
  return Date.parse(run.started ?? run.submitted);
}
