import { type KeyboardEvent, useRef, useState } from "react";
import { Icon } from "../../app/icons";
import { useKeys } from "../../app/keyboard";
import { fieldNames } from "../../query/fields";
import { hasTerm, toggleTerm } from "../../query/parse";

interface Props {
  text: string;
  change: (text: string) => void;
  problem: string | null;
  metrics: string[];
}

const quick = [
  ["Running", "state:running"],
  ["Queued", "state:queued"],
  ["Failed", "state:failed"],
] as const;

/** The line that filters, searches and sorts the table of runs. */
export function QueryLine({ text, change, problem, metrics }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const [focused, setFocused] = useState(false);
  useKeys({ "/": () => input.current?.select() });
  const word = text.split(" ").at(-1) ?? "";
  const suggestions = focused ? suggest(word, metrics) : [];
  function complete(to: string) {
    change(text.slice(0, text.length - word.length) + to);
    input.current?.focus();
  }
  function onKey(event: KeyboardEvent) {
    if (event.key === "Escape") input.current?.blur();
    if (event.key === "Enter") input.current?.blur();
    if (event.key === "Tab" && suggestions[0] && !event.shiftKey && word) {
      event.preventDefault();
      complete(suggestions[0]);
    }
  }
  return (
    <div className="query">
      <div className={`query-box ${problem ? "bad" : ""}`}>
        <Icon name="search" />
        <input
          ref={input}
          value={text}
          onChange={(event) => change(event.target.value)}
          onKeyDown={onKey}
          onFocus={() => setFocused(true)}
          onBlur={() => setFocused(false)}
          spellCheck={false}
          autoComplete="off"
          aria-label="Filter and sort runs"
          aria-invalid={!!problem}
          placeholder="state:failed  lr>1e-3  tag:baseline  sort:train/loss"
        />
        {text ? (
          <button
            type="button"
            className="clear"
            onClick={() => change("")}
            aria-label="Clear the query"
          >
            ×
          </button>
        ) : (
          <kbd>/</kbd>
        )}
        {suggestions.length > 0 && (
          <div className="menu suggestions">
            {suggestions.map((each) => (
              // The field must keep the focus, so the choice is made before it would lose it.
              <button
                type="button"
                key={each}
                tabIndex={-1}
                onPointerDown={(event) => {
                  event.preventDefault();
                  complete(each);
                }}
              >
                <code>{each}</code>
              </button>
            ))}
          </div>
        )}
      </div>
      <div className="quick">
        {quick.map(([label, term]) => (
          <button
            key={term}
            type="button"
            className="button"
            aria-pressed={hasTerm(text, term)}
            onClick={() => change(toggleTerm(text, term))}
          >
            {label}
          </button>
        ))}
      </div>
      {problem && <p className="query-problem">{problem}</p>}
    </div>
  );
}

const states = ["queued", "starting", "running", "succeeded", "failed", "timed_out", "cancelled"];

function suggest(word: string, metrics: string[]): string[] {
  if (!word) return [];
  const sorting = word.startsWith("sort:");
  const naming = sorting || word.startsWith("group:");
  if (word.startsWith("state:")) {
    return states
      .map((state) => `state:${state}`)
      .filter((each) => each.startsWith(word) && each !== word);
  }
  const name = word.replace(/^(sort|group):/, "").replace(/^-/, "");
  const head = word.slice(0, word.length - name.length);
  if (!name && !naming) return [];
  const names = [...fieldNames, ...metrics].filter(
    (each) => each.toLowerCase().startsWith(name.toLowerCase()) && each !== name,
  );
  return names
    .slice(0, 8)
    .map((each) => head + each + (naming || metrics.includes(each) ? "" : ":"));
}
