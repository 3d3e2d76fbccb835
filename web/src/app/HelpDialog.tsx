import { Dialog } from "../parts/Dialog";

const keys = [
  ["/", "Write in the query line"],
  ["j  k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["x", "Select the row"],
  ["c", "Compare the selected runs"],
  ["[  ]", "Previous and next tab of a run"],
  ["l", "Logs of the run, at its first error"],
  ["g r", "Runs"],
  ["g n", "Submit a run"],
  ["g p", "Reports"],
  ["g c", "Cluster"],
  ["g b", "Budget"],
  ["g s", "Settings"],
  ["t", "Dark or light"],
  ["Ctrl K", "Go to any run or view"],
  ["Esc", "Leave the field, clear the selection"],
] as const;

export function HelpDialog({ close }: { close: () => void }) {
  return (
    <Dialog title="Keys" close={close}>
      <div className="body">
        <h2>Keys</h2>
        <dl className="keys-list">
          {keys.map(([key, text]) => (
            <div key={key}>
              <dt>
                {key.split(/\s+/).map((part) => (
                  <kbd key={part}>{part}</kbd>
                ))}
              </dt>
              <dd>{text}</dd>
            </div>
          ))}
        </dl>
      </div>
    </Dialog>
  );
}
