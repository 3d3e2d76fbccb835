// The routes about the artifacts of runs.
#pragma once

#include "platform/api/artifact_messages.h"
#include "platform/api/route.h"

namespace lockstep::api {

inline constexpr TypedRoute<ArtifactsQuery, None, ArtifactList> kArtifacts{
    "GET",
    "/api/v1/runs/{project}/{number}/artifacts",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "ArtifactList",
    "the files that a run has logged"};
inline constexpr TypedRoute<ArtifactPartQuery, None, ArtifactPart> kArtifactPart{
    "GET",
    "/api/v1/runs/{project}/{number}/artifacts/part",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "ArtifactPart",
    "a part of the content of such a file"};
inline constexpr TypedRoute<None, AddArtifactPart, ArtifactPartStored> kAddArtifactPart{
    "POST",
    "/api/v1/runs/{project}/{number}/artifacts/part",
    {Action::control_run, "artifact.add"},
    RouteErrors::run_not_found_or_storage_full,
    "AddArtifactPart",
    "ArtifactPartStored",
    "add a part of a content; with the last one the run has the artifact"};

}  // namespace lockstep::api
