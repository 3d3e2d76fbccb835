// Keys of the page. A view registers its keys while it is shown; the newest registration wins.
import { useEffect, useRef } from "react";

export type Keys = Record<string, (event: KeyboardEvent) => void>;

const stack: { current: Keys }[] = [];
let prefix = "";
let prefixTimer = 0;

/** Keys are those of KeyboardEvent.key, such as "j", "Enter", "?"; "g r" is one after the other. */
export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    stack.push(latest);
    return () => void stack.splice(stack.indexOf(latest), 1);
  }, []);
}

function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return !!target?.closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
}

export function handleKey(event: KeyboardEvent): void {
  if (event.altKey || document.querySelector("dialog[open]")) return;
  const modified = event.metaKey || event.ctrlKey;
  if (isTyping(event) && !modified) return;
  const key = modified ? `mod+${event.key.toLowerCase()}` : event.key;
  const chord = prefix ? `${prefix} ${key}` : key;
  setPrefix("");
  for (const keys of [...stack].reverse()) {
    const action = keys.current[chord];
    if (action) {
      event.preventDefault();
      action(event);
      return;
    }
  }
  if (key === "g") setPrefix("g");
}

function setPrefix(text: string): void {
  prefix = text;
  clearTimeout(prefixTimer);
  if (text) prefixTimer = window.setTimeout(() => setPrefix(""), 900);
}
