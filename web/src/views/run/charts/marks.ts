import type { Run } from "../../../api/types";
import type { Mark } from "../../../charts/chartOptions";
import type { XAxis } from "../../../charts/lines";

/** Events of a run on the x axis of its charts. By step, only checkpoints have a place. */
export function marksOf(run: Run, axis: XAxis): Mark[] {
  const marks: Mark[] = run.checkpoints.map((checkpoint) => ({
    x: axis === "step" ? checkpoint.step : at(checkpoint.time, run, axis),
    kind: "checkpoint",
    label: `checkpoint of step ${checkpoint.step}`,
  }));
  if (axis === "step") return marks;
  for (const attempt of run.attempts.slice(1)) {
    if (attempt.started) {
      marks.push({
        x: at(attempt.started, run, axis),
        kind: "attempt",
        label: `attempt ${attempt.epoch}`,
      });
    }
  }
  for (const attempt of run.attempts) {
    if (attempt.ended && attempt.cause !== "ok" && attempt.cause !== "none") {
      marks.push({ x: at(attempt.ended, run, axis), kind: "failure", label: attempt.reason });
    }
  }
  return marks;
}

function at(time: string, run: Run, axis: XAxis): number {
  const zero = axis === "relative" ? originOf(run) : 0;
  return (Date.parse(time) - zero) / 1000;
}

/** Zero of the relative axis: the start of the run. */
export function originOf(run: Run): number {
  return Date.parse(run.started ?? run.submitted);
}
