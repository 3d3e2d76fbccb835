// Dark or light: the system's choice, until the reader chooses. The choice is kept in the browser.
import { useSyncExternalStore } from "react";

export type Theme = "dark" | "light";

const key = "lockstep.theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function chosen(): Theme {
  const kept = localStorage.getItem(key);
  if (kept === "dark" || kept === "light") return kept;
  return system.matches ? "dark" : "light";
}

/** What the page shows now. */
export function themeOf(): Theme {
  return document.documentElement.dataset.theme === "light" ? "light" : "dark";
}

/** Until the next choice or the next load of the page. */
export function setTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
  for (const listener of listeners) listener();
}

export function applyTheme(): void {
  setTheme(chosen());
}

export function toggleTheme(): void {
  localStorage.setItem(key, chosen() === "dark" ? "light" : "dark");
  applyTheme();
}

system.addEventListener("change", applyTheme);

export function useTheme(): Theme {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, themeOf);
}
