// From the postings of a project to the curve of what it had available, its plan and its forecast.
// Pure.
import type { Budget, Posting } from "../../api/types";

export interface Point {
  time: number;
  minutes: number;
}

export interface Burn {
  /** What was not spent yet: available and held. Steps. */
  left: Point[];
  /** Even use of the current grants, from the last grant to their end. Empty: there is no grant. */
  plan: Point[];
  /** From now on at the rate of the last seven days. Empty: nothing was used. */
  forecast: Point[];
  from: number;
  to: number;
  most: number;
}

const day = 86_400_000;

/** `postings` newest first, as the daemon has them. They may begin in the middle of the history. */
export function burnOf(budget: Budget, postings: readonly Posting[], now: number): Burn {
  const left = balances(budget, postings, now);
  const ends = Math.max(0, ...budget.grants.map(({ ends }) => Date.parse(ends)));
  const plan = planOf(left, postings, ends, budget.project);
  const forecast = forecastOf(budget, now, ends);
  const points = [...left, ...plan, ...forecast];
  const from = Math.min(...points.map(({ time }) => time));
  const to = Math.max(from + day / 24, ...points.map(({ time }) => time));
  return {
    left,
    plan,
    forecast,
    from,
    to,
    most: Math.max(1, ...points.map((each) => each.minutes)),
  };
}

/** Backwards from now: each posting before it had what it changed less. */
function balances(budget: Budget, postings: readonly Posting[], now: number): Point[] {
  let minutes = Number(budget.available_minutes) + Number(budget.held_minutes);
  const points: Point[] = [{ time: now, minutes }];
  for (const posting of postings) {
    const change = changeOf(posting, budget.project);
    if (change === 0) continue;
    const time = Date.parse(posting.time);
    points.push({ time, minutes }, { time, minutes: minutes - change });
    minutes -= change;
  }
  return points.reverse();
}

/** How the posting changes what the project has not spent. A hold and its release change nothing. */
export function changeOf(posting: Posting, project: string): number {
  const minutes = Number(posting.minutes);
  const own = (account: string) => account === "available" || account === "held";
  const gets = own(posting.to) && posting.to_project === project;
  const gives = own(posting.from) && posting.from_project === project;
  if (gets === gives) return 0;
  return gets ? minutes : -minutes;
}

function planOf(
  left: readonly Point[],
  postings: readonly Posting[],
  ends: number,
  project: string,
): Point[] {
  if (ends === 0) return [];
  const grant = postings.find(
    (posting) => posting.kind === "grant" && posting.to_project === project,
  );
  const begin = grant ? Date.parse(grant.time) : (left[0]?.time ?? 0);
  const minutes = left.findLast(({ time }) => time <= begin)?.minutes ?? left[0]?.minutes ?? 0;
  return [
    { time: begin, minutes },
    { time: ends, minutes: 0 },
  ];
}

function forecastOf(budget: Budget, now: number, ends: number): Point[] {
  const aDay = Number(budget.minutes_per_day);
  const minutes = Number(budget.available_minutes) + Number(budget.held_minutes);
  if (aDay <= 0 || minutes <= 0) return [];
  const empty = now + (minutes / aDay) * day;
  const last = ends > 0 ? Math.min(empty, ends) : empty;
  return [
    { time: now, minutes },
    { time: last, minutes: minutes - ((last - now) / day) * aDay },
  ];
}
