import "./charts.css";

/** The place of a chart whose points are not there yet. */
export function WaitingChart({ title, short = false }: { title: string; short?: boolean }) {
  return (
    <section className={`card chart-card chart-waiting ${short ? "short" : ""}`}>
      <header>
        <h2 className="clip">{title}</h2>
      </header>
    </section>
  );
}
