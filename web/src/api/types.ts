// Names for the types of the API. schema.ts is generated from docs/api/openapi.json.
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Run = Schemas["RunView"];
export type RunState = Run["state"];
export type RunList = Schemas["RunList"];
export type Attempt = Run["attempts"][number];
export type Node = Attempt["nodes"][number];
export type Rank = Node["ranks"][number];
export type Spec = Run["spec"];
export type Series = Schemas["SeriesList"]["series"][number];
export type SeriesList = Schemas["SeriesList"];
export type LogPage = Schemas["LogPage"];
export type LogLine = LogPage["lines"][number];
export type Queue = Schemas["QueueView"];
export type Host = Schemas["HostList"]["hosts"][number];
export type ClusterMap = Schemas["Map"];
export type Changes = Schemas["Changes"];
export type WhoAmI = Schemas["WhoAmI"];
export type Posting = Schemas["PostingList"]["postings"][number];
export type Finding = Schemas["FindingList"]["findings"][number];
export type Budget = Schemas["BudgetView"];

export type DocumentView = Schemas["DocumentView"];
export type SaveDocumentRequest = Schemas["SaveDocumentRequest"];
export type DocumentKind = DocumentView["kind"];
export type CurveView = Schemas["CurveList"]["curves"][number];
export type Annotation = Schemas["AnnotateRequest"];
export type NoticeTarget = Schemas["AddNoticeTargetRequest"];
export type LoggedImage = Schemas["ImageList"]["images"][number];
export type LoggedHistogram = Schemas["HistogramList"]["histograms"][number];
export type DeviceUse = Schemas["DeviceUseList"]["rows"][number];

/** Numbers of the API that may not be finite are the texts "NaN", "Infinity" and "-Infinity". */
export type ApiNumber = number | "NaN" | "Infinity" | "-Infinity";

export function toNumber(value: ApiNumber): number {
  return typeof value === "number" ? value : Number(value);
}
