// The settings of a run, read from its command: --lr 3e-4, --lr=3e-4, and lr=3e-4 as Hydra has it.

const cache = new WeakMap<readonly string[], Record<string, string>>();

export function settingsOf(command: readonly string[]): Record<string, string> {
  const known = cache.get(command);
  if (known) return known;
  const settings = readSettings(command);
  cache.set(command, settings);
  return settings;
}

function readSettings(command: readonly string[]): Record<string, string> {
  const settings: Record<string, string> = {};
  for (let index = 1; index < command.length; index += 1) {
    const word = command[index] ?? "";
    const next = command[index + 1];
    const option = /^--([A-Za-z][\w.-]*)(?:=(.*))?$/s.exec(word);
    if (option?.[1]) {
      if (option[2] !== undefined) settings[option[1]] = option[2];
      else if (next !== undefined && isValue(next)) {
        settings[option[1]] = next;
        index += 1;
      } else settings[option[1]] = "true";
      continue;
    }
    const assignment = /^\+{0,2}([A-Za-z][\w./-]*)=(.*)$/s.exec(word);
    if (assignment?.[1]) settings[assignment[1]] = assignment[2] ?? "";
  }
  return settings;
}

function isValue(word: string): boolean {
  return !word.startsWith("-") || /^-\.?\d/.test(word);
}
