// The files that a run has logged. The calls are those of MLflow's clients (docs/design/mlflow.md).
import { queryOptions } from "@tanstack/react-query";
import { address, call } from "./client";

export interface ArtifactFile {
  path: string;
  is_dir: boolean;
  file_size?: number;
}

const root = "/api/2.0/mlflow-artifacts/artifacts";

/** The id of a run for MLflow: "demo-42" is demo/42; "_" of a project is "__", and "." is "_d". */
export function mlflowName(id: string): string {
  const [project = "", number = ""] = id.split("/");
  return `${project.replaceAll("_", "__").replaceAll(".", "_d")}-${number}`;
}

/** The calls have the experiment as well, which the daemon does not need. */
function place(id: string, path: string): string {
  return ["0", mlflowName(id), "artifacts", ...(path ? [path] : [])].join("/");
}

export function artifactAddress(id: string, path: string): string {
  return `${root}/${place(id, path).split("/").map(encodeURIComponent).join("/")}`;
}

/** Folders first, then files, by name. */
export function artifactsQuery(id: string, folder: string) {
  return queryOptions({
    queryKey: ["artifacts", id, folder],
    queryFn: async ({ signal }) => {
      const query = { path: place(id, folder) };
      const { files } = await call<{ files: ArtifactFile[] }>(
        "GET",
        address(root, {}, query),
        undefined,
        signal,
      );
      return files.sort(
        (left, right) =>
          Number(right.is_dir) - Number(left.is_dir) ||
          left.path.localeCompare(right.path, "en", { numeric: true }),
      );
    },
  });
}

export type Preview = { kind: "image"; url: string } | { kind: "text"; text: string; cut: boolean };

const images: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
};
const texts = /\.(txt|log|json|ya?ml|csv|tsv|md|py|toml|cfg|ini|sh|html|xml|jsonl)$/i;
const textMax = 100_000;
export const previewMax = 8 << 20;

/** How a file of this name and size can be shown; null: not at all. */
export function previewKind(name: string, size: number): "image" | "text" | null {
  if (size > previewMax) return null;
  if (imageType(name)) return "image";
  return texts.test(name) ? "text" : null;
}

function imageType(name: string): string | undefined {
  return images[name.slice(name.lastIndexOf(".") + 1).toLowerCase()];
}

export function previewQuery(id: string, path: string, kind: "image" | "text") {
  return queryOptions({
    queryKey: ["artifact", id, path],
    queryFn: async ({ signal }): Promise<Preview> => {
      const answer = await fetch(artifactAddress(id, path), {
        headers: { "X-Lockstep-Page": "1" },
        credentials: "same-origin",
        signal,
      });
      if (!answer.ok) throw new Error(`The daemon answered ${answer.status} for ${path}.`);
      if (kind === "text") {
        const text = await answer.text();
        return { kind, text: text.slice(0, textMax), cut: text.length > textMax };
      }
      // The page's policy allows images of data: addresses, and no other address has this content.
      const bytes = new Blob([await answer.arrayBuffer()], { type: imageType(path) ?? "" });
      return { kind, url: await dataAddress(bytes) };
    },
    staleTime: 60_000,
  });
}

function dataAddress(bytes: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(bytes);
  });
}
