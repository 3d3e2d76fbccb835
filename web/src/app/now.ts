// One clock for all relative times on the page: a component renders again once a second at most.
import { useSyncExternalStore } from "react";

let now = Date.now();
const listeners = new Set<() => void>();
let timer = 0;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (!timer) {
    timer = window.setInterval(() => {
      if (document.hidden) return;
      now = Date.now();
      for (const each of listeners) each();
    }, 1000);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = 0;
    }
  };
}

export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}
