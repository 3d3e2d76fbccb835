import {
  columnOrderingFeature,
  columnVisibilityFeature,
  type RowSelectionState,
  rowSelectionFeature,
  tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, memo, useEffect, useMemo, useRef, useState } from "react";
import type { Run } from "../../api/types";
import { navigate, runPath } from "../../app/router";
import type { Row } from "../../query/group";
import type { Sort } from "../../query/parse";
import { type ColumnView, columnOf, sortField } from "./columns";
import { GroupRow } from "./GroupRow";
import { boxWidth, type PlacedColumn, pinClass, pinStyle, placeColumns } from "./pins";
import type { Layout } from "./useColumns";
import type { Share } from "./useSelection";

const features = tableFeatures({
  rowSelectionFeature,
  columnVisibilityFeature,
  columnOrderingFeature,
});
const rowHeight = 36;

interface Props {
  rows: Row[];
  toggleGroup: (key: string) => void;
  layout: Layout;
  moveColumn: (from: string, to: string) => void;
  /** Called when the reader scrolls near the last row, if there are more. */
  nearEnd?: () => void;
  sort: Sort | null;
  toggleSort: (field: string) => void;
  selection: RowSelectionState;
  setSelection: (change: (before: RowSelectionState) => RowSelectionState) => void;
  /** The share of all rows that is selected, with those in closed groups. */
  selected: Share;
  toggleAll: () => void;
  cursor: number;
  setCursor: (index: number) => void;
}

/** The table of runs. Only the rows in view exist, so its length does not matter. */
export function RunsTable(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const { columns, pinned } = props.layout;
  const views = useMemo(() => placeColumns(columns.map(columnOf), pinned), [columns, pinned]);
  const definitions = useMemo(
    () => views.map(({ id }) => ({ id, accessorFn: () => null })),
    [views],
  );
  const table = useTable({
    features,
    columns: definitions,
    data: props.rows,
    getRowId: (row: Row) => (row.kind === "run" ? row.run.id : `group ${row.group.key}`),
    state: { rowSelection: props.selection },
    onRowSelectionChange: (updater) =>
      props.setSelection((before) => (typeof updater === "function" ? updater(before) : updater)),
  });
  const rows = table.getRowModel().rows;
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight,
    overscan: 12,
  });
  const { cursor } = props;
  useEffect(() => {
    if (cursor >= 0) virtual.scrollToIndex(cursor, { align: "auto" });
  }, [cursor, virtual]);
  const style = {
    "--columns": `${boxWidth}px ${views.map(track).join(" ")}`,
    "--table-width": `${views.reduce((sum, view) => sum + view.width, boxWidth + 12)}px`,
  } as CSSProperties;
  return (
    <div
      className="runs-table"
      ref={box}
      style={style}
      tabIndex={0}
      onScroll={(event) => {
        const { scrollHeight, scrollTop, clientHeight, scrollLeft } = event.currentTarget;
        event.currentTarget.toggleAttribute("data-aside", scrollLeft > 0);
        if (scrollTop > 0 && scrollHeight - scrollTop < 3 * clientHeight) props.nearEnd?.();
      }}
      role="grid"
      aria-rowcount={rows.length + 1}
    >
      <Header
        views={views}
        sort={props.sort}
        toggle={props.toggleSort}
        move={props.moveColumn}
        selected={props.selected}
        toggleAll={props.toggleAll}
      />
      <div className="runs-body" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const row = rows[item.index];
          if (!row) return null;
          const { original } = row;
          if (original.kind === "group") {
            return (
              <GroupRow
                key={row.id}
                group={original.group}
                open={original.open}
                views={views}
                top={item.start}
                current={item.index === cursor}
                selection={props.selection}
                setSelection={props.setSelection}
                toggle={() => {
                  props.setCursor(item.index);
                  props.toggleGroup(original.group.key);
                }}
              />
            );
          }
          return (
            <RunRow
              key={row.id}
              run={original.run}
              views={views}
              index={item.index}
              top={item.start}
              selected={row.getIsSelected()}
              toggle={() => row.toggleSelected()}
              current={item.index === cursor}
              setCursor={props.setCursor}
            />
          );
        })}
      </div>
    </div>
  );
}

/** The columns of texts share the width that is left. */
function track(view: ColumnView): string {
  // On a phone the name is narrower, so that the state is in view beside it.
  if (view.id === "name") return `minmax(var(--name-width, ${view.width}px), 1fr)`;
  const stretches = view.id === "reason" || view.id === "command";
  return stretches ? `minmax(${view.width}px, 1fr)` : `${view.width}px`;
}

function Header(props: {
  views: PlacedColumn[];
  sort: Sort | null;
  toggle: (field: string) => void;
  move: (from: string, to: string) => void;
  selected: Props["selected"];
  toggleAll: () => void;
}) {
  const [dragged, setDragged] = useState("");
  const [over, setOver] = useState("");
  return (
    <div className="runs-row runs-head" role="row" tabIndex={-1}>
      <span role="columnheader" tabIndex={-1} className="check">
        <label title="Select all runs of the query line">
          <input
            type="checkbox"
            aria-label="Select all runs of the query line"
            checked={props.selected === "all"}
            ref={(input) => {
              if (input) input.indeterminate = props.selected === "some";
            }}
            onChange={props.toggleAll}
          />
        </label>
      </span>
      {props.views.map((view) => {
        const field = sortField(view.id);
        const sorted = props.sort?.field === field;
        const direction = props.sort?.descending ? "descending" : "ascending";
        return (
          <button
            key={view.id}
            type="button"
            role="columnheader"
            className={`${view.right ? "number" : ""} ${pinClass(view)} ${over === view.id ? "drop" : ""}`}
            style={pinStyle(view)}
            draggable
            onDragStart={() => setDragged(view.id)}
            onDragEnd={() => setOver("")}
            onDragOver={(event) => {
              if (!dragged) return;
              event.preventDefault();
              setOver(view.id);
            }}
            onDrop={() => {
              if (dragged && dragged !== view.id) props.move(dragged, view.id);
              setDragged("");
              setOver("");
            }}
            aria-sort={sorted ? direction : "none"}
            title={`Sort by ${field}; drag to move the column`}
            onClick={() => props.toggle(field)}
          >
            <span className="clip">{view.label}</span>
            {sorted && <span aria-hidden="true">{props.sort?.descending ? " ↓" : " ↑"}</span>}
          </button>
        );
      })}
    </div>
  );
}

interface RowProps {
  run: Run;
  views: PlacedColumn[];
  index: number;
  top: number;
  selected: boolean;
  toggle: () => void;
  current: boolean;
  setCursor: (index: number) => void;
}

const RunRow = memo(
  function RunRow({ run, views, index, top, selected, toggle, current, setCursor }: RowProps) {
    const kind = `runs-row ${current ? "current" : ""} ${selected ? "selected" : ""}`;
    return (
      // biome-ignore lint/a11y/useKeyWithClickEvents: j, k and Enter are keys of the whole view.
      <div
        className={kind}
        role="row"
        tabIndex={-1}
        aria-selected={selected}
        style={{ transform: `translateY(${top}px)` }}
        onClick={(event) => {
          setCursor(index);
          const control = (event.target as HTMLElement).closest("a, input, button, label");
          if (!control && !getSelection()?.toString()) navigate(runPath(run.id));
        }}
      >
        <span role="gridcell" tabIndex={-1} className="check">
          <label>
            <input
              type="checkbox"
              aria-label={`Select ${run.id}`}
              checked={selected}
              tabIndex={-1}
              onChange={toggle}
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
            {view.cell(run)}
          </span>
        ))}
      </div>
    );
  },
  (before, after) =>
    before.run === after.run &&
    before.views === after.views &&
    before.top === after.top &&
    before.selected === after.selected &&
    before.current === after.current,
);
