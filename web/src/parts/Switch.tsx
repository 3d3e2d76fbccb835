/** A choice of one among few. */
export function Switch<V extends string>(props: {
  label: string;
  value: V;
  choices: readonly (readonly [V, string])[];
  choose: (value: V) => void;
}) {
  return (
    <div className="switch" role="group" aria-label={props.label}>
      {props.choices.map(([value, label]) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === props.value}
          onClick={() => props.choose(value)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}
