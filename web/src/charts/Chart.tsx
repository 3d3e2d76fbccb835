import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useTheme } from "../app/theme";
import { type Look, optionsOf, readColors } from "./chartOptions";
import type { ChartData } from "./lines";
import type { PlacedMark } from "./marks";

export type Zoom = [number, number] | null;

interface Props extends Look {
  data: ChartData;
  marks: readonly PlacedMark[];
  zoom: Zoom;
  setZoom: (zoom: Zoom) => void;
  /** The index in `data.x` below the pointer, of this chart or another one; null: none. */
  onHover: (index: number | null, mark: PlacedMark | null) => void;
}

/** A canvas of uPlot. It is made again when its lines or colours change, and else only gets data. */
export function Chart(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const theme = useTheme();
  const { data, height, axis, log, syncKey, tick, binary } = props;
  const shape = data.lines.map((line) => `${line.kind}${line.color}`).join();

  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` and `theme` stand for data and colours.
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(
      optionsOf(
        { height, axis, log, syncKey, tick, binary },
        element.clientWidth,
        readColors(),
        latest,
      ),
      columns(latest.current.data),
      element,
    );
    plot.current = made;
    const resize = new ResizeObserver(() => {
      if (element.clientWidth !== made.width) made.setSize({ width: element.clientWidth, height });
    });
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, theme, height, axis, log, syncKey, tick, binary]);

  useEffect(() => {
    plot.current?.setData(columns(data));
  }, [data]);

  const [from, to] = props.zoom ?? [null, null];
  // biome-ignore lint/correctness/useExhaustiveDependencies: the range function reads the zoom.
  useEffect(() => {
    plot.current?.setData(plot.current.data);
  }, [from, to, props.marks]);

  return <div className="chart" ref={box} style={{ height }} />;
}

function columns(data: ChartData): uPlot.AlignedData {
  return [data.x, ...data.lines.map((line) => line.values)] as uPlot.AlignedData;
}
