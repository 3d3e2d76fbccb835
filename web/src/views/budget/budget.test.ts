import { expect, it } from "vitest";
import type { Budget, Posting } from "../../api/types";
import { burnOf, changeOf } from "./burn";

const now = Date.parse("2026-03-11T00:00:00Z");

function budget(values: Partial<Budget> = {}): Budget {
  return {
    project: "speech",
    limited: true,
    available_minutes: 500,
    held_minutes: 100,
    spent_minutes: 400,
    used_percent: 40,
    grants: [{ ends: "2026-03-31T00:00:00Z", granted_minutes: 1000, left_minutes: 600 }],
    minutes_per_day: 40,
    runs_out: null,
    warning: "",
    ...values,
  };
}

function posting(kind: Posting["kind"], day: string, minutes: number, way: string): Posting {
  const [from = "", to = ""] = way.split(">");
  return {
    id: 1,
    time: `${day}T00:00:00Z`,
    kind,
    from,
    from_project: from === "bank" ? "" : "speech",
    to,
    to_project: to === "bank" ? "" : "speech",
    minutes,
    by: "ann",
    reason: "",
    attempt: "",
  } as Posting;
}

const history = [
  posting("settle", "2026-03-05", 400, "held>spent"),
  posting("hold", "2026-03-02", 500, "available>held"),
  posting("grant", "2026-03-01", 1000, "bank>available"),
];

it("a grant and a settlement change what is left, and a hold does not", () => {
  expect(history.map((each) => changeOf(each, "speech"))).toEqual([-400, 0, 1000]);
});

it("the curve goes back from what is left now to nothing before the first grant", () => {
  const { left } = burnOf(budget(), history, now);
  expect(left.map(({ minutes }) => minutes)).toEqual([0, 1000, 1000, 600, 600]);
});

it("the plan is even use from the grant to its end", () => {
  const { plan } = burnOf(budget(), history, now);
  expect(plan.map(({ minutes }) => minutes)).toEqual([1000, 0]);
  expect(new Date(plan[1]?.time ?? 0).toISOString()).toBe("2026-03-31T00:00:00.000Z");
});

it("the forecast ends where the budget is used up, or with its grants", () => {
  const runsOut = burnOf(budget(), history, now).forecast.at(-1);
  expect(runsOut).toEqual({ time: Date.parse("2026-03-26T00:00:00Z"), minutes: 0 });
  const lasts = burnOf(budget({ minutes_per_day: 10 }), history, now).forecast.at(-1);
  expect(lasts).toEqual({ time: Date.parse("2026-03-31T00:00:00Z"), minutes: 400 });
  expect(burnOf(budget({ minutes_per_day: 0 }), history, now).forecast).toEqual([]);
});
