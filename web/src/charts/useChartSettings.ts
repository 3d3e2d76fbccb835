// The axis, smoothing, scale and zoom of charts. All are in the address, so a view can be shared.
import { useCallback, useMemo } from "react";
import { setParameters, useAddress } from "../app/router";
import type { Zoom } from "./Chart";
import type { ChartSettings } from "./ChartCard";
import type { XAxis } from "./lines";

function isAxis(text: string): text is XAxis {
  return text === "step" || text === "time" || text === "relative" || /^metric:./.test(text);
}

export function useChartSettings(fallback: XAxis = "step"): ChartSettings {
  const { searchParams } = useAddress();
  const text = searchParams.toString();
  const setZoom = useCallback(
    (zoom: Zoom) => setParameters({ zoom: zoom?.map(short).join(",") ?? "" }),
    [],
  );
  return useMemo(() => {
    const values = new URLSearchParams(text);
    const asked = values.get("x") ?? "";
    const axis = isAxis(asked) ? asked : fallback;
    return {
      axis,
      smoothing: Math.min(0.99, Math.max(0, Number(values.get("smooth")) || 0)),
      log: values.get("scale") === "log",
      band: values.get("ranks") !== "each",
      zoom: readZoom(values.get("zoom")),
      setZoom,
      syncKey: axis,
    };
  }, [text, fallback, setZoom]);
}

function short(value: number): string {
  return String(Number(value.toPrecision(10)));
}

export function readZoom(text: string | null): Zoom {
  const [from, to] = (text ?? "").split(",").map(Number);
  return from !== undefined && to !== undefined && from < to ? [from, to] : null;
}
