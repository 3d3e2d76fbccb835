// The routes about users, projects, tokens and the audit.
#pragma once

#include "platform/api/identity_messages.h"
#include "platform/api/route.h"

namespace lockstep::api {

inline constexpr TypedRoute<None, None, WhoAmI> kWhoAmI{
    "GET",
    "/api/v1/whoami",
    Action::read_cluster,
    RouteErrors::none,
    "",
    "WhoAmI",
    "the user by whose token the call comes, and its rights"};
inline constexpr TypedRoute<None, None, UserList> kUsers{
    "GET", "/api/v1/users", Action::manage_users, RouteErrors::none, "", "UserList", "all users"};
inline constexpr TypedRoute<None, AddUserRequest, UserView> kAddUser{
    "POST",
    "/api/v1/users",
    {Action::manage_users, "user.add"},
    RouteErrors::storage_full,
    "AddUserRequest",
    "UserView",
    "add a person, with a personal project of the same name"};
inline constexpr TypedRoute<None, ChangeUserRequest, UserView> kChangeUser{
    "POST",
    "/api/v1/users/{user}",
    {Action::manage_users, "user.change"},
    RouteErrors::run_not_found_or_storage_full,
    "ChangeUserRequest",
    "UserView",
    "disable or enable a user, make it an admin or not"};
inline constexpr TypedRoute<None, None, UserList> kRemoveUser{
    "POST",
    "/api/v1/users/{user}/remove",
    {Action::manage_users, "user.remove"},
    RouteErrors::run_not_found_or_storage_full,
    "",
    "UserList",
    "remove a user with its tokens and memberships; its runs stay, and its name is not given "
    "again"};
inline constexpr TypedRoute<None, None, ProjectList> kProjects{
    "GET",
    "/api/v1/projects",
    Action::read_cluster,
    RouteErrors::none,
    "",
    "ProjectList",
    "the projects that the caller may read, with their members"};
inline constexpr TypedRoute<None, AddProjectRequest, ProjectView> kAddProject{
    "POST",
    "/api/v1/projects",
    {Action::manage_users, "project.add"},
    RouteErrors::storage_full,
    "AddProjectRequest",
    "ProjectView",
    "add a project that several users share"};
inline constexpr TypedRoute<None, None, ProjectList> kRemoveProject{
    "POST",
    "/api/v1/projects/{project}/remove",
    {Action::manage_users, "project.remove"},
    RouteErrors::run_not_found_or_storage_full,
    "",
    "ProjectList",
    "remove a project with its members and service accounts; its runs stay, for admins"};
inline constexpr TypedRoute<None, MemberRequest, ProjectView> kSetMember{
    "POST",
    "/api/v1/projects/{project}/members",
    {Action::manage_project, "project.member"},
    RouteErrors::run_not_found_or_storage_full,
    "MemberRequest",
    "ProjectView",
    "give a user a role in a project, or take it away"};
inline constexpr TypedRoute<None, AddServiceRequest, UserView> kAddService{
    "POST",
    "/api/v1/projects/{project}/services",
    {Action::manage_project, "project.service"},
    RouteErrors::run_not_found_or_storage_full,
    "AddServiceRequest",
    "UserView",
    "add a service account to a project: a user with tokens and no password"};
inline constexpr TypedRoute<TokensQuery, None, TokenList> kTokens{
    "GET",
    "/api/v1/tokens",
    Action::manage_self,
    RouteErrors::run_not_found,
    "",
    "TokenList",
    "the tokens of a user, without their secrets"};
inline constexpr TypedRoute<None, AddTokenRequest, NewTokenView> kAddToken{
    "POST",
    "/api/v1/tokens",
    {Action::manage_self, "token.add"},
    RouteErrors::run_not_found_or_storage_full,
    "AddTokenRequest",
    "NewTokenView",
    "make a token, with at most the rights of its user"};
inline constexpr TypedRoute<None, None, TokenView> kRevokeToken{
    "POST",
    "/api/v1/tokens/{token}/revoke",
    {Action::manage_self, "token.revoke"},
    RouteErrors::run_not_found_or_storage_full,
    "",
    "TokenView",
    "revoke a token: it is refused from the next call on"};
inline constexpr TypedRoute<AuditQuery, None, AuditList> kAudit{
    "GET",
    "/api/v1/audit",
    Action::read_audit,
    RouteErrors::none,
    "",
    "AuditList",
    "what users changed and what they were refused, newest first; a manager sees its projects'"};

}  // namespace lockstep::api
