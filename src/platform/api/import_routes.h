// Routes that bring what other programs have recorded into a run, and those of images and
// histograms.
#pragma once

#include "platform/api/agent_messages.h"
#include "platform/api/import_messages.h"
#include "platform/api/route.h"

namespace lockstep::api {

inline constexpr TypedRoute<None, ImportRequest, ImportedRun> kImport{
    "POST",
    "/api/v1/imports",
    {Action::submit_run, "run.import"},
    RouteErrors::storage_full,
    "ImportRequest",
    "ImportedRun",
    "the run without nodes for what is imported, made at the first call with this key"};
inline constexpr TypedRoute<None, ImportedPoints, ImportedPointsAnswer> kImportPoints{
    "POST",
    "/api/v1/runs/{project}/{number}/imported-points",
    {Action::control_run, ""},
    RouteErrors::run_not_found_or_storage_full,
    "ImportedPoints",
    "ImportedPointsAnswer",
    "add points of metrics, each batch of a source once"};
inline constexpr TypedRoute<None, ItemsRequest, ItemsStored> kAddItems{
    "POST",
    "/api/v1/runs/{project}/{number}/items",
    {Action::control_run, ""},
    RouteErrors::run_not_found_or_storage_full,
    "ItemsRequest",
    "ItemsStored",
    "add reports of ranks, each once"};
inline constexpr TypedRoute<None, MediaRequest, MediaStored> kAddMedia{
    "POST",
    "/api/v1/runs/{project}/{number}/media",
    {Action::control_run, ""},
    RouteErrors::run_not_found_or_storage_full,
    "MediaRequest",
    "MediaStored",
    "add an image or a histogram; the same name, step, rank and index replaces it"};
inline constexpr TypedRoute<HeartbeatQuery, MediaRequest, MediaStored> kNodeMedia{
    "POST",
    "/api/v1/runs/{project}/{number}/attempts/{epoch}/nodes/{index}/media",
    Caller::agent,
    RouteErrors::run_not_found_or_storage_full,
    "MediaRequest",
    "MediaStored",
    "add an image or a histogram that a rank has logged"};
inline constexpr TypedRoute<MediaQuery, None, ImageList> kImages{
    "GET",
    "/api/v1/runs/{project}/{number}/images",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "ImageList",
    "images that the ranks logged"};
inline constexpr TypedRoute<ImageQuery, None, ImageFile> kImage{
    "GET",
    "/api/v1/runs/{project}/{number}/image",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "ImageFile",
    "the file of one image"};
inline constexpr TypedRoute<MediaQuery, None, HistogramList> kHistograms{
    "GET",
    "/api/v1/runs/{project}/{number}/histograms",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "HistogramList",
    "histograms that the ranks logged"};

}  // namespace lockstep::api
