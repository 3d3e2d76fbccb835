// The routes about the secrets of projects.
#pragma once

#include "platform/api/route.h"
#include "platform/api/secret_messages.h"

namespace lockstep::api {

inline constexpr TypedRoute<None, None, SecretList> kSecrets{"GET",
                                                             "/api/v1/projects/{project}/secrets",
                                                             Action::submit_run,
                                                             RouteErrors::run_not_found,
                                                             "",
                                                             "SecretList",
                                                             "the names of a project's secrets"};
inline constexpr TypedRoute<None, SetSecretRequest, SecretView> kSetSecret{
    "POST",
    "/api/v1/projects/{project}/secrets/{secret}",
    {Action::manage_project, "secret.set"},
    RouteErrors::run_not_found_or_storage_full,
    "SetSecretRequest",
    "SecretView",
    "set the value of a secret; runs get it from their next attempt on"};
inline constexpr TypedRoute<None, None, SecretList> kRemoveSecret{
    "POST",
    "/api/v1/projects/{project}/secrets/{secret}/remove",
    {Action::manage_project, "secret.remove"},
    RouteErrors::run_not_found_or_storage_full,
    "",
    "SecretList",
    "remove a secret; attempts that have it keep it"};

}  // namespace lockstep::api
