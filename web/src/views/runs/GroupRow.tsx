import type { RowSelectionState } from "@tanstack/react-table";
import type { ReactNode } from "react";
import { badgeKind } from "../../parts/StateBadge";
import { type Aggregate, aggregateOf, type Group } from "../../query/group";
import { formatNumber } from "../../text/format";
import { type ColumnView, sortField } from "./columns";
import { type PlacedColumn, pinClass, pinStyle } from "./pins";
import { shareOf, withoutRuns, withRuns } from "./useSelection";

interface Props {
  group: Group;
  open: boolean;
  views: PlacedColumn[];
  top: number;
  current: boolean;
  selection: RowSelectionState;
  setSelection: (change: (before: RowSelectionState) => RowSelectionState) => void;
  toggle: () => void;
}

/** The head of a group: its value, its count, and an aggregate in each column of numbers. */
export function GroupRow({ group, open, views, top, current, toggle, ...rest }: Props) {
  const share = shareOf(group.runs, rest.selection);
  const all = share === "all";
  const label = group.key || "none";
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: j, k and Enter are keys of the whole view.
    <div
      className={`runs-row group ${current ? "current" : ""}`}
      role="row"
      tabIndex={-1}
      style={{ transform: `translateY(${top}px)` }}
      onClick={(event) => {
        if (!(event.target as HTMLElement).closest("input, label")) toggle();
      }}
    >
      <span role="gridcell" tabIndex={-1} className="check">
        <label>
          <input
            type="checkbox"
            aria-label={`Select the ${group.runs.length} runs of ${label}`}
            checked={all}
            ref={(input) => {
              if (input) input.indeterminate = share === "some";
            }}
            tabIndex={-1}
            onChange={() =>
              rest.setSelection((before) => (all ? withoutRuns : withRuns)(before, group.runs))
            }
          />
        </label>
      </span>
      {views.map((view) => (
        <span
          key={view.id}
          role="gridcell"
          tabIndex={-1}
          className={`clip ${view.right ? "number" : ""} ${pinClass(view)}`}
          style={pinStyle(view)}
        >
          {cell(view, group, open, label)}
        </span>
      ))}
    </div>
  );
}

function cell(view: ColumnView, group: Group, open: boolean, label: string): ReactNode {
  if (view.id === "name") {
    return (
      <span className="row">
        <button
          type="button"
          className="group-toggle twist"
          tabIndex={-1}
          aria-expanded={open}
          aria-label={`Runs of ${label}`}
        >
          {open ? "▾" : "▸"}
        </button>
        <span className={`clip ${group.key ? "run-name" : "faint"}`} title={label}>
          {label}
        </span>
        <span className="group-count">{group.runs.length.toLocaleString("en-US")}</span>
      </span>
    );
  }
  if (view.id === "state") {
    return (
      <span className="row" title={group.states.map(([s, n]) => `${n} ${words(s)}`).join(", ")}>
        {group.states.slice(0, 3).map(([state, count]) => (
          <span key={state} className={`badge ${badgeKind(state)}`}>
            {count}
          </span>
        ))}
      </span>
    );
  }
  const aggregate = aggregateOf(group.runs, sortField(view.id));
  return aggregate && <AggregateText aggregate={aggregate} format={view.format ?? formatNumber} />;
}

function words(state: string): string {
  return state.replace("_", " ");
}

function AggregateText(props: { aggregate: Aggregate; format: (value: number) => string }) {
  const { aggregate, format } = props;
  const { kind, value, least, greatest, count } = aggregate;
  const runs = count === 1 ? "1 run" : `${count} runs`;
  const tip = `${kind} of ${runs}: ${format(value)}\nleast ${format(least)}, greatest ${format(greatest)}`;
  return (
    <span title={tip}>
      <span className="faint aggregate-kind">{kind === "sum" ? "Σ" : "⌀"}</span> {format(value)}
    </span>
  );
}
