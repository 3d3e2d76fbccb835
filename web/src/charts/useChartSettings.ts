// The axis, smoothing, scale and zoom of charts. All are in the address, so a view can be shared.
import { useMemo } from "react";
import { useParameter } from "../app/router";
import type { ChartSettings } from "./ChartCard";
import type { XAxis } from "./lines";
import { addressZoom, useRestedZoom } from "./zoom";

function isAxis(text: string): text is XAxis {
  return text === "step" || text === "time" || text === "relative" || /^metric:./.test(text);
}

export function useChartSettings(fallback: XAxis = "step"): ChartSettings {
  const [asked] = useParameter("x");
  const [smooth] = useParameter("smooth");
  const [scale] = useParameter("scale");
  const [ranks] = useParameter("ranks");
  const restedZoom = useRestedZoom(addressZoom);
  return useMemo(() => {
    const axis = isAxis(asked) ? asked : fallback;
    return {
      axis,
      smoothing: Math.min(0.99, Math.max(0, Number(smooth) || 0)),
      log: scale === "log",
      band: ranks !== "each",
      zoom: addressZoom,
      restedZoom,
      syncKey: axis,
    };
  }, [asked, smooth, scale, ranks, restedZoom, fallback]);
}
