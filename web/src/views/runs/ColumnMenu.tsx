import { useMemo, useState } from "react";
import type { Run } from "../../api/types";
import { Icon } from "../../app/icons";
import { Menu } from "../../parts/Menu";
import { settingsOf } from "../../text/settings";
import { columnOf, curveColumn, knownColumns } from "./columns";
import { firstLayout, type Layout, moveColumn, toggleColumn, togglePin } from "./useColumns";

interface Props {
  runs: readonly Run[];
  layout: Layout;
  change: (layout: Layout) => void;
}

/** Chooses columns, and those that stay in view: fields, and the metrics and settings of the runs. */
export function ColumnMenu(props: Props) {
  return (
    <Menu
      title="Choose columns"
      label={
        <>
          <Icon name="columns" /> <span className="button-text">Columns</span>
        </>
      }
    >
      <Choices {...props} />
    </Menu>
  );
}

function Choices({ runs, layout, change }: Props) {
  const { columns } = layout;
  const [text, setText] = useState("");
  const groups = useMemo(() => groupsOf(runs), [runs]);
  const has = (id: string) => id.toLowerCase().includes(text.toLowerCase());
  const toggle = (id: string) => change(toggleColumn(layout, id));
  return (
    <>
      <input
        className="input menu-search"
        placeholder="Find a column"
        aria-label="Find a column"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <div className="head">Shown</div>
      {columns.filter(has).map((id) => (
        <div className="column-choice" key={id}>
          <label>
            <input type="checkbox" checked onChange={() => toggle(id)} />
            <span className="grow clip">{id}</span>
          </label>
          <button
            type="button"
            className="pin"
            aria-pressed={columns.indexOf(id) < layout.pinned}
            aria-label={`Pin ${id}`}
            title="Stays in view while the others scroll to the side"
            onClick={() => change(togglePin(layout, id))}
          >
            <Icon name="pin" />
          </button>
          <button
            type="button"
            aria-label={`Move ${id} left`}
            onClick={() => change(moveColumn(layout, id, -1))}
          >
            ←
          </button>
          <button
            type="button"
            aria-label={`Move ${id} right`}
            onClick={() => change(moveColumn(layout, id, 1))}
          >
            →
          </button>
        </div>
      ))}
      {groups.map(([title, ids]) => {
        const rest = ids.filter((id) => !columns.includes(id) && has(id)).slice(0, 100);
        return rest.length === 0 ? null : (
          <div key={title}>
            <div className="head">{title}</div>
            {rest.map((id) => (
              <label key={id}>
                <input type="checkbox" checked={false} onChange={() => toggle(id)} />
                <span className="grow clip" title={id}>
                  {title === "Curves" ? columnOf(id).label : id}
                </span>
              </label>
            ))}
          </div>
        );
      })}
      <div className="head" />
      <button type="button" onClick={() => change(firstLayout)}>
        Show the first columns again
      </button>
    </>
  );
}

function groupsOf(runs: readonly Run[]): [string, string[]][] {
  const metrics = new Set<string>();
  const settings = new Set<string>();
  const tags = new Set<string>();
  for (const run of runs.slice(0, 300)) {
    for (const tag of Object.keys(run.tags)) tags.add(`tag.${tag}`);
    for (const name of Object.keys(run.latest)) metrics.add(name);
    for (const name of Object.keys(settingsOf(run.spec.command))) settings.add(name);
  }
  return [
    ["Fields", knownColumns.map((column) => column.id)],
    ["Metrics", [...metrics].sort()],
    ["Curves", [...metrics].sort().map(curveColumn)],
    ["Tags", [...tags].sort()],
    ["Settings", [...settings].sort()],
  ];
}
