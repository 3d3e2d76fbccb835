// Short messages about what an action did. They vanish; errors stay longer.
import { useSyncExternalStore } from "react";

interface Toast {
  id: number;
  text: string;
  kind: "" | "bad";
}

let toasts: Toast[] = [];
let next = 1;
const listeners = new Set<() => void>();

function change(to: Toast[]): void {
  toasts = to;
  for (const listener of listeners) listener();
}

export function say(text: string, kind: "" | "bad" = ""): void {
  const id = next++;
  change([...toasts.slice(-3), { id, text, kind }]);
  setTimeout(() => change(toasts.filter((toast) => toast.id !== id)), kind ? 10_000 : 4_000);
}

export function sayError(error: unknown): void {
  say(error instanceof Error ? error.message : String(error), "bad");
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status">
      {shown.map((toast) => (
        <div key={toast.id} className={`toast ${toast.kind}`}>
          {toast.text}
        </div>
      ))}
    </div>
  );
}
