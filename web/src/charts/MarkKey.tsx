import type { Mark, MarkKind } from "./marks";

const labels: readonly [MarkKind, string, string][] = [
  ["checkpoint", "checkpoint", "checkpoints"],
  ["attempt", "later attempt", "later attempts"],
  ["failure", "failure", "failures"],
  ["finding", "finding", "findings"],
];

/** The meaning of the vertical lines of charts; empty without events. */
export function MarkKey({ marks }: { marks: readonly Mark[] }) {
  const counts = labels.flatMap(([kind, one, several]) => {
    const count = marks.filter((mark) => mark.kind === kind).length;
    return count > 0 ? [{ kind, text: `${count} ${count === 1 ? one : several}` }] : [];
  });
  if (counts.length === 0) return null;
  return (
    <ul className="mark-key">
      {counts.map(({ kind, text }) => (
        <li key={kind} className={`chart-mark ${kind}`}>
          {text}
        </li>
      ))}
    </ul>
  );
}
