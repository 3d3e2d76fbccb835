import type { Run } from "../../../api/types";
import { Time } from "../../../parts/Time";

/** What users and the daemon did, newest first. */
export function Events({ events }: { events: Run["events"] }) {
  return (
    <section className="card">
      <header>
        <h2>Events</h2>
      </header>
      <table className="plain">
        <tbody>
          {events.toReversed().map((event) => (
            <tr key={`${event.time}${event.what}`}>
              <td className="event-time">
                <Time at={event.time} />
              </td>
              <td className="muted event-by">{event.by}</td>
              <td className="wide-text">{event.what}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
