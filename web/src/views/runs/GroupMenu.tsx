import { useMemo, useState } from "react";
import type { Run } from "../../api/types";
import { Icon } from "../../app/icons";
import { Menu } from "../../parts/Menu";
import { groupChoices } from "../../query/group";
import { settingsOf } from "../../text/settings";

interface Props {
  runs: readonly Run[];
  group: string;
  choose: (field: string) => void;
}

/** Divides the table by the values of a field, a tag or a setting. */
export function GroupMenu({ runs, group, choose }: Props) {
  return (
    <Menu
      title="Divide the table into groups"
      label={
        <>
          <Icon name="group" /> <span className="button-text">{group || "Group"}</span>
        </>
      }
    >
      <Choices runs={runs} group={group} choose={choose} />
    </Menu>
  );
}

function Choices({ runs, group, choose }: Props) {
  const [text, setText] = useState("");
  const names = useMemo(() => groupChoices(runs, (run) => settingsOf(run.spec.command)), [runs]);
  const shown = names.filter((name) => name.toLowerCase().includes(text.toLowerCase()));
  return (
    <>
      <input
        className="input menu-search"
        placeholder="Group by"
        aria-label="Group by"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      {shown.slice(0, 60).map((name) => (
        <button
          key={name}
          type="button"
          aria-pressed={name === group}
          onClick={() => choose(name === group ? "" : name)}
        >
          <span className="grow clip">{name}</span>
          {name === group && "✓"}
        </button>
      ))}
      {group && (
        <>
          <div className="head" />
          <button type="button" onClick={() => choose("")}>
            No groups
          </button>
        </>
      )}
    </>
  );
}
