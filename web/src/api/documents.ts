// Saved views of runs, and reports: texts that the daemon keeps.
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { address, call } from "./client";
import type { DocumentKind, DocumentView } from "./types";

export interface SaveRequest {
  id?: number;
  kind: DocumentKind;
  project?: string;
  name: string;
  text: string;
  /** The version that the reader has changed: another change meanwhile is not lost. */
  version?: number;
}

export function documentsQuery(kind: DocumentKind) {
  return queryOptions({
    queryKey: ["documents", kind],
    queryFn: async ({ signal }) => {
      const url = address("/api/v1/documents", {}, { kind });
      return (await call<{ documents: DocumentView[] }>("GET", url, undefined, signal)).documents;
    },
    staleTime: 10_000,
  });
}

export function documentQuery(id: string) {
  return queryOptions({
    queryKey: ["document", id],
    queryFn: ({ signal }) =>
      call<DocumentView>("GET", `/api/v1/documents/${encodeURIComponent(id)}`, undefined, signal),
  });
}

export function useSaveDocument() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (request: SaveRequest) => call<DocumentView>("POST", "/api/v1/documents", request),
    onSuccess: (saved) => {
      client.setQueryData(["document", String(saved.id)], saved);
      void client.invalidateQueries({ queryKey: ["documents", saved.kind] });
    },
  });
}

export function useRemoveDocument() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (id: number) => call<DocumentView>("POST", `/api/v1/documents/${id}/remove`, {}),
    onSuccess: (removed) => {
      client.removeQueries({ queryKey: ["document", String(removed.id)] });
      void client.invalidateQueries({ queryKey: ["documents", removed.kind] });
    },
  });
}
