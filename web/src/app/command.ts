// The command of `lockstep` that shows what the view shows. The status bar has it.
import { useEffect, useSyncExternalStore } from "react";

let command = "";
const listeners = new Set<() => void>();

function set(text: string): void {
  command = text;
  for (const listener of listeners) listener();
}

export function useViewCommand(text: string): void {
  useEffect(() => set(text), [text]);
}

export function useShownCommand(): string {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    () => command,
  );
}

/** A word of a shell command: quoted if the shell would read it otherwise. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
