import { useQuery } from "@tanstack/react-query";
import {
  type ArtifactFile,
  artifactAddress,
  artifactsQuery,
  previewKind,
  previewQuery,
} from "../../../api/artifacts";
import type { Run } from "../../../api/types";
import { setParameters, useParameter } from "../../../app/router";
import { Empty } from "../../../parts/Empty";
import { ErrorBox } from "../../../parts/ErrorBox";
import { formatBytes } from "../../../text/format";
import { Images } from "./Images";
import "./artifacts.css";

/** The files that the run has logged: folders to open, and a preview of the chosen file. */
export function ArtifactsTab({ run }: { run: Run }) {
  const [folder] = useParameter("folder");
  const [chosen] = useParameter("file");
  const files = useQuery(artifactsQuery(run.id, folder));
  if (files.isError) {
    return (
      <div className="view">
        <ErrorBox error={files.error} retry={() => void files.refetch()} />
      </div>
    );
  }
  if (files.data?.length === 0 && !folder) {
    return (
      <div className="empty">
        <strong>This run logged no files</strong>
        <p>Log them in the program, by these calls:</p>
        <pre className="snippet">
          {
            'import lockstep\nlockstep.log_artifact("plot.png")\nlockstep.log({"samples": lockstep.Image(array)}, step=step)'
          }
        </pre>
      </div>
    );
  }
  const path = (name: string) => (folder ? `${folder}/${name}` : name);
  const file = files.data?.find((each) => !each.is_dir && each.path === chosen);
  return (
    <div className="view artifacts">
      <Images run={run} />
      <section className="card">
        <header>
          <Folders folder={folder} />
        </header>
        <ul className="artifact-list">
          {(files.data ?? []).map((each) => (
            <FileRow key={each.path} file={each} path={path(each.path)} chosen={each === file} />
          ))}
        </ul>
      </section>
      <section className="card artifact-preview">
        {file ? (
          <Preview id={run.id} file={file} path={path(file.path)} />
        ) : (
          <Empty title="No file is chosen">Images and texts are shown here.</Empty>
        )}
      </section>
    </div>
  );
}

function Folders({ folder }: { folder: string }) {
  const parts = folder ? folder.split("/") : [];
  return (
    <nav className="row artifact-folders" aria-label="Folder">
      <button
        type="button"
        className="link"
        onClick={() => setParameters({ folder: "", file: "" })}
      >
        artifacts
      </button>
      {parts.map((part, index) => {
        const path = parts.slice(0, index + 1).join("/");
        return (
          <span key={path} className="row">
            <span className="faint">/</span>
            <button
              type="button"
              className="link"
              onClick={() => setParameters({ folder: path, file: "" })}
            >
              {part}
            </button>
          </span>
        );
      })}
    </nav>
  );
}

function FileRow(props: { file: ArtifactFile; path: string; chosen: boolean }) {
  const { file, path, chosen } = props;
  return (
    <li>
      <button
        type="button"
        aria-pressed={chosen}
        onClick={() =>
          setParameters(file.is_dir ? { folder: path, file: "" } : { file: file.path })
        }
      >
        <span className="twist">{file.is_dir ? "▸" : ""}</span>
        <span className="grow clip" title={file.path}>
          {file.path}
        </span>
        <span className="muted">{file.is_dir ? "" : formatBytes(file.file_size ?? 0)}</span>
      </button>
    </li>
  );
}

function Preview({ id, file, path }: { id: string; file: ArtifactFile; path: string }) {
  const kind = previewKind(file.path, file.file_size ?? 0);
  return (
    <>
      <header>
        <h2 className="clip" title={path}>
          {file.path}
        </h2>
        <span className="muted">{formatBytes(file.file_size ?? 0)}</span>
        <span className="grow" />
        <a className="button" href={artifactAddress(id, path)} download={file.path}>
          Download
        </a>
      </header>
      {kind ? (
        <Content id={id} path={path} kind={kind} />
      ) : (
        <Empty title="There is no preview of this file">Download it to look at it.</Empty>
      )}
    </>
  );
}

function Content({ id, path, kind }: { id: string; path: string; kind: "image" | "text" }) {
  const content = useQuery(previewQuery(id, path, kind));
  if (content.isError) return <ErrorBox error={content.error} />;
  if (!content.data) return <div className="chart-waiting" />;
  if (content.data.kind === "image") {
    return <img className="artifact-image" src={content.data.url} alt={path} />;
  }
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keys. */}
      <pre className="artifact-text" tabIndex={0}>
        {content.data.text}
      </pre>
      {content.data.cut && <p className="muted card-text">The rest is not shown.</p>}
    </>
  );
}
