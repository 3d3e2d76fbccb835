import { Icon } from "../app/icons";
import { say } from "../app/toasts";

/** A command to type, which a click copies. */
export function CommandHint({ command, boxed }: { command: string; boxed?: boolean }) {
  async function copy() {
    try {
      await navigator.clipboard.writeText(command);
      say("Copied the command.");
    } catch {
      say("The browser does not let this page copy. Select the text instead.", "bad");
    }
  }
  return (
    <button
      type="button"
      className={`command ${boxed ? "boxed" : ""}`}
      title="Copy the command"
      onClick={copy}
    >
      <span className="faint">$</span>
      <span className="clip">{command}</span>
      <Icon name="copy" />
    </button>
  );
}
