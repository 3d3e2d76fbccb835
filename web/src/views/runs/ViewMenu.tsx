import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { documentsQuery, useRemoveDocument, useSaveDocument } from "../../api/documents";
import { Icon } from "../../app/icons";
import { navigate } from "../../app/router";
import { say, sayError } from "../../app/toasts";
import { Dialog } from "../../parts/Dialog";
import { Menu } from "../../parts/Menu";
import { type TableView, viewAddress, viewText } from "./savedViews";

/** The reader's saved views: each has a query, with its sort and groups, and columns. */
export function ViewMenu({ view }: { view: TableView }) {
  const [asked, setAsked] = useState(false);
  return (
    <>
      <Menu
        title="Saved views"
        label={
          <>
            <Icon name="star" /> <span className="button-text">Views</span>
          </>
        }
      >
        <Choices save={() => setAsked(true)} />
      </Menu>
      {asked && <SaveDialog view={view} close={() => setAsked(false)} />}
    </>
  );
}

function Choices({ save }: { save: () => void }) {
  const views = useQuery(documentsQuery("view"));
  const remove = useRemoveDocument();
  const list = [...(views.data ?? [])].sort((a, b) => a.name.localeCompare(b.name, "en"));
  return (
    <>
      {views.isError && <p className="menu-text">{views.error.message}</p>}
      {views.isSuccess && list.length === 0 && (
        <p className="menu-text">No view is saved. A view keeps the query and the columns.</p>
      )}
      {list.map((saved) => (
        <div className="column-choice" key={saved.id}>
          <button
            type="button"
            className="view-name"
            onClick={() => navigate(viewAddress(saved.text))}
          >
            <span className="grow clip" title={saved.name}>
              {saved.name}
            </span>
          </button>
          <button
            type="button"
            aria-label={`Remove the view ${saved.name}`}
            onClick={() => remove.mutate(saved.id, { onError: sayError })}
          >
            ×
          </button>
        </div>
      ))}
      <div className="head" />
      <button type="button" onClick={save}>
        Save this view
      </button>
    </>
  );
}

function SaveDialog({ view, close }: { view: TableView; close: () => void }) {
  const views = useQuery(documentsQuery("view"));
  const save = useSaveDocument();
  const [name, setName] = useState("");
  const same = views.data?.find((saved) => saved.name === name.trim());
  function submit() {
    const request = { kind: "view", name: name.trim(), text: viewText(view) } as const;
    save.mutate(
      { ...request, id: same?.id },
      {
        // A dialog that is gone would not be told.
        onSuccess: () => {
          say(`Saved the view ${name.trim()}.`);
          close();
        },
        onError: sayError,
      },
    );
  }
  return (
    <Dialog title="Save this view" close={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <h2>Save this view</h2>
        <p className="muted">
          The query with its sort and groups, and the columns with the pinned ones. You find it
          under Views in each browser in which you log in.
        </p>
        <input
          className="input"
          autoFocus
          maxLength={100}
          placeholder="Failed runs of this week"
          aria-label="Name of the view"
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <div className="dialog-actions">
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button main" disabled={!name.trim()}>
            {same ? "Replace the view" : "Save"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
