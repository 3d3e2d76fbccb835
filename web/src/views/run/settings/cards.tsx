import type { ReactNode } from "react";
import "./settings.css";

/** A card of a grid of cards. */
export function Card(props: {
  title: string;
  wide?: boolean;
  action?: ReactNode;
  children: ReactNode;
}) {
  return (
    <section className={`card ${props.wide ? "wide" : ""}`}>
      <header>
        <h2>{props.title}</h2>
        <span className="grow" />
        {props.action}
      </header>
      {props.children}
    </section>
  );
}

/** Names and texts, a row each. */
export function Pairs({ rows }: { rows: readonly (readonly [string, string])[] }) {
  return (
    <table className="plain pairs">
      <tbody>
        {rows.map(([name, value]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>
              <code>{value}</code>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
