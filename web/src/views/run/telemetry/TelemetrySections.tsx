import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { metricQuery, telemetryNames } from "../../../api/metrics";
import type { Node, Run } from "../../../api/types";
import { ChartCard, type ChartSettings } from "../../../charts/ChartCard";
import type { Curve } from "../../../charts/lines";
import type { Mark } from "../../../charts/marks";
import { useVisible } from "../../../charts/useVisible";
import { WaitingChart } from "../../../charts/WaitingChart";
import { groupNames } from "../charts/groups";
import { originOf } from "../charts/marks";
import { isBinary, unitOf } from "./units";

interface Props {
  run: Run;
  settings: ChartSettings;
  marks: readonly Mark[];
  search: string;
}

const mostNodes = 8;
/** Sections that a reader looks at seldom are closed at first. */
const open = /^(device|cpu|memory)/;

/** Charts of telemetry in groups: devices, processors, memory, network, disks. */
export function TelemetrySections({ run, settings, marks, search }: Props) {
  const names = useQuery(telemetryNames(run.id, 0));
  const groups = useMemo(() => groupNames(names.data ?? [], search), [names.data, search]);
  const nodes = run.attempts.at(-1)?.nodes.slice(0, mostNodes) ?? [];
  if (names.isSuccess && groups.length === 0) {
    return (
      <p className="muted chart-none">
        No telemetry{search ? ` has “${search}” in its name` : " yet"}.
      </p>
    );
  }
  return groups.map(({ group, names }) => (
    <details className="chart-section" key={group} open={open.test(group) || search !== ""}>
      <summary>
        {group}
        <span className="faint">{names.length}</span>
      </summary>
      <div className="chart-grid">
        {names.map((name) => (
          <TelemetryChart
            key={name}
            name={name}
            run={run}
            nodes={nodes}
            settings={settings}
            marks={marks}
          />
        ))}
      </div>
    </details>
  ));
}

interface ChartProps extends Omit<Props, "search"> {
  name: string;
  nodes: Node[];
}

/** One reading, with a line for each node. */
function TelemetryChart({ name, run, nodes, settings, marks }: ChartProps) {
  const [element, visible] = useVisible<HTMLDivElement>();
  const live = run.state === "running";
  const results = useQueries({
    queries: nodes.map((node) => ({
      ...metricQuery({ id: run.id, name, lines: 1, node: node.index, live }),
      enabled: visible,
    })),
    combine: (all) => ({
      data: all.map((each) => each.data),
      ready: all.some((each) => each.data),
    }),
  });
  const origin = originOf(run);
  const { data } = results;
  const curves = useMemo<Curve[]>(
    () =>
      nodes.flatMap((node, index) =>
        (data[index]?.series ?? []).map((series) => ({
          label: node.host,
          color: index,
          points: series.points,
          origin,
        })),
      ),
    [data, nodes, origin],
  );
  const each = useMemo(() => ({ ...settings, band: false }), [settings]);
  return (
    <div ref={element}>
      {visible && results.ready ? (
        <ChartCard
          title={name.slice(name.indexOf("/") + 1)}
          curves={curves}
          settings={each}
          marks={marks}
          format={unitOf(name)}
          tick={unitOf(name)}
          binary={isBinary(name)}
          height={150}
        />
      ) : (
        <WaitingChart title={name.slice(name.indexOf("/") + 1)} short />
      )}
    </div>
  );
}
