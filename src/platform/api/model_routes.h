// The routes about models and their versions.
#pragma once

#include "platform/api/model_messages.h"
#include "platform/api/route.h"

namespace lockstep::api {

inline constexpr TypedRoute<ModelsQuery, None, ModelList> kModels{
    "GET",
    "/api/v1/models",
    Action::read_cluster,
    RouteErrors::run_not_found,
    "",
    "ModelList",
    "the models of the projects that the caller may read"};
inline constexpr TypedRoute<ModelQuery, None, ModelView> kModel{
    "GET",
    "/api/v1/models/{project}/{model}",
    Action::read_run,
    RouteErrors::run_not_found,
    "",
    "ModelView",
    "a model with its versions, each with the run, code and data behind it"};
inline constexpr TypedRoute<None, RegisterModelRequest, ModelVersionView> kRegisterModel{
    "POST",
    "/api/v1/models/{project}/{model}/register",
    {Action::submit_run, "model.register"},
    RouteErrors::run_not_found_or_storage_full,
    "RegisterModelRequest",
    "ModelVersionView",
    "register a checkpoint or an artifact of a run as a version of a model"};
inline constexpr TypedRoute<None, ModelAliasRequest, ModelView> kModelAlias{
    "POST",
    "/api/v1/models/{project}/{model}/alias",
    {Action::submit_run, "model.alias"},
    RouteErrors::run_not_found_or_storage_full,
    "ModelAliasRequest",
    "ModelView",
    "let an alias stand for a version, or remove it"};
inline constexpr TypedRoute<None, RemoveModelRequest, RemovedModel> kRemoveModel{
    "POST",
    "/api/v1/models/{project}/{model}/remove",
    {Action::submit_run, "model.remove"},
    RouteErrors::run_not_found_or_storage_full,
    "RemoveModelRequest",
    "RemovedModel",
    "remove a version or a model; its files stay with its run"};

}  // namespace lockstep::api
