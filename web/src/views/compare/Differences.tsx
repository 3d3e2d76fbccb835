import { useMemo, useState } from "react";
import type { Run } from "../../api/types";
import { say, sayError } from "../../app/toasts";
import { WideBox } from "../../parts/WideBox";
import { asCsv, asMarkdown, asText, differencesOf } from "./differences";

const most = 40;

/** A table of what differs, one column a run. */
export function Differences({ runs }: { runs: readonly Run[] }) {
  const rows = useMemo(() => differencesOf(runs), [runs]);
  const copy = (write: typeof asText) =>
    navigator.clipboard.writeText(write(runs, rows)).then(() => say("Copied the table."), sayError);
  const [all, setAll] = useState(false);
  const shown = all ? rows : rows.slice(0, most);
  let section = "";
  return (
    <section className="card">
      <header>
        <h2>Differences</h2>
        <span className="grow" />
        <button type="button" className="button" onClick={() => copy(asText)}>
          Copy the table
        </button>
        <button type="button" className="button" onClick={() => copy(asCsv)}>
          CSV
        </button>
        <button type="button" className="button" onClick={() => copy(asMarkdown)}>
          Markdown
        </button>
      </header>
      <WideBox label="Differences">
        <table className="plain differences">
          <thead>
            <tr>
              <th />
              {runs.map((run, index) => (
                <th key={run.id}>
                  <i className={`swatch c${index % 10}`} /> {run.id}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => {
              const begins = row.section !== section;
              section = row.section;
              return (
                <tr key={`${row.section}${row.name}`} className={begins ? "begins" : ""}>
                  <th scope="row">
                    {row.name}
                    {begins && <span className="section-name">{row.section}</span>}
                  </th>
                  {row.values.map((value, index) => (
                    <td key={runs[index]?.id} className={row.best === index ? "best" : ""}>
                      {value ?? <span className="faint">–</span>}
                    </td>
                  ))}
                </tr>
              );
            })}
          </tbody>
        </table>
      </WideBox>
      {rows.length > shown.length && (
        <button type="button" className="button plain" onClick={() => setAll(true)}>
          Show {rows.length - shown.length} more rows
        </button>
      )}
    </section>
  );
}
