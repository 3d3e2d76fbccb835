// The part of the x axis that the charts of a view show. It may change at each frame, so charts take
// it without a render of React, and ask the daemon for points only when it rests.
import { useEffect, useState, useSyncExternalStore } from "react";
import { onAddress, readParameter, setParameters } from "../app/router";

/** From and to; null: all. */
export type Zoom = readonly [number, number] | null;

export interface SharedZoom {
  get: () => Zoom;
  set: (zoom: Zoom) => void;
  /** Calls the listener when the zoom may have changed, until the returned function is called. */
  subscribe: (listener: () => void) => () => void;
}

/** The zoom in the address. */
export const addressZoom: SharedZoom = {
  get: () => readZoom(readParameter("zoom")),
  set: (zoom) => setParameters({ zoom: zoom?.map(short).join(",") ?? "" }),
  subscribe: onAddress,
};

/** A zoom that is not in the address, as of one chart of a report. */
export function localZoom(): SharedZoom {
  const listeners = new Set<() => void>();
  let current: Zoom = null;
  return {
    get: () => current,
    set: (zoom) => {
      current = zoom;
      for (const listener of listeners) listener();
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

export function useIsZoomed(zoom: SharedZoom): boolean {
  return useSyncExternalStore(zoom.subscribe, () => zoom.get() !== null);
}

const restMilliseconds = 150;

/** The zoom once it has not changed for a moment. All is shown at once. */
export function useRestedZoom(zoom: SharedZoom): Zoom {
  const [rested, setRested] = useState(() => zoom.get());
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const take = () => setRested((before) => (isSame(before, zoom.get()) ? before : zoom.get()));
    const wait = () => {
      clearTimeout(timer);
      if (zoom.get() === null) take();
      else timer = setTimeout(take, restMilliseconds);
    };
    take();
    const stop = zoom.subscribe(wait);
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [zoom]);
  return rested;
}

export function isSame(left: Zoom, right: Zoom): boolean {
  return left?.[0] === right?.[0] && left?.[1] === right?.[1];
}

export function readZoom(text: string): Zoom {
  const [from, to] = text.split(",").map(Number);
  return from !== undefined && to !== undefined && from < to ? [from, to] : null;
}

function short(value: number): string {
  return String(Number(value.toPrecision(10)));
}
