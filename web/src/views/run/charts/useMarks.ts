import { useMemo } from "react";
import { useFindings } from "../../../api/findings";
import type { Run } from "../../../api/types";
import type { Mark } from "../../../charts/marks";
import { marksOf } from "./marks";

/** The same list until an attempt, a checkpoint or a finding changes. */
export function useMarks(run: Run): readonly Mark[] {
  const findings = useFindings(run);
  const checkpoints = run.checkpoints.length;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version stands for the attempts.
  return useMemo(() => marksOf(run, findings), [run.id, run.version, checkpoints, findings]);
}
