import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useTheme } from "../app/theme";
import { type Look, optionsOf, readColors } from "./chartOptions";
import type { ChartData } from "./lines";
import type { PlacedMark } from "./marks";
import type { SharedZoom, Zoom } from "./zoom";

interface Props extends Look {
  data: ChartData;
  marks: readonly PlacedMark[];
  zoom: SharedZoom;
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

  // biome-ignore lint/correctness/useExhaustiveDependencies: the hook that draws reads the marks.
  useEffect(() => {
    plot.current?.redraw(false);
  }, [props.marks]);

  const { zoom } = props;
  useEffect(
    () =>
      zoom.subscribe(() => {
        if (plot.current) show(plot.current, zoom.get());
      }),
    [zoom],
  );

  return <div className="chart" ref={box} style={{ height }} />;
}

/** uPlot draws all changes of one task together. */
function show(plot: uPlot, zoom: Zoom): void {
  const [from, to] = zoom ?? [plot.data[0][0], plot.data[0].at(-1)];
  const { min, max } = plot.scales.x ?? {};
  if (from === undefined || to === undefined || (from === min && to === max)) return;
  plot.setScale("x", { min: from, max: to });
}

function columns(data: ChartData): uPlot.AlignedData {
  return [data.x, ...data.lines.map((line) => line.values)] as uPlot.AlignedData;
}
