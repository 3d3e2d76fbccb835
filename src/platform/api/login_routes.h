// The routes about log-ins and passwords.
#pragma once

#include "platform/api/identity_messages.h"
#include "platform/api/login_messages.h"
#include "platform/api/route.h"

namespace lockstep::api {

inline constexpr TypedRoute<None, LoginRequest, LoginAnswer> kLogin{
    "POST",
    "/api/v1/login",
    Caller::anyone,
    RouteErrors::login_refused,
    "LoginRequest",
    "LoginAnswer",
    "log in by a password; the token ends after 30 days"};
inline constexpr TypedRoute<None, None, LoginOptions> kLoginOptions{
    "GET",
    "/api/v1/login",
    Caller::anyone,
    RouteErrors::none,
    "",
    "LoginOptions",
    "the ways in which users log in"};
inline constexpr TypedRoute<None, SessionRequest, SessionAnswer> kSession{
    "POST",
    "/api/v1/session",
    Caller::anyone,
    RouteErrors::login_refused,
    "SessionRequest",
    "SessionAnswer",
    "log in to the page: sets its cookie"};
inline constexpr TypedRoute<None, None, LogoutAnswer> kEndSession{
    "DELETE",
    "/api/v1/session",
    {Action::read_cluster, "user.logout"},
    RouteErrors::storage_full,
    "",
    "LogoutAnswer",
    "log out of the page: removes the cookie, and revokes its token if a log-in made it"};
inline constexpr TypedRoute<None, None, SessionCode> kSessionCode{
    "POST",
    "/api/v1/session/code",
    {Action::manage_self},
    RouteErrors::none,
    "",
    "SessionCode",
    "get a code with which the page logs the caller in, once"};
inline constexpr TypedRoute<None, None, DeviceLogin> kDeviceLogin{
    "POST",
    "/api/v1/login/device",
    Caller::anyone,
    RouteErrors::login_refused,
    "",
    "DeviceLogin",
    "begin a log-in at the issuer of OIDC, on another device"};
inline constexpr TypedRoute<None, DevicePollRequest, DevicePollAnswer> kDevicePoll{
    "POST",
    "/api/v1/login/device/poll",
    Caller::anyone,
    RouteErrors::login_refused,
    "DevicePollRequest",
    "DevicePollAnswer",
    "ask whether the user has agreed, and get the token"};
inline constexpr TypedRoute<None, None, LogoutAnswer> kLogout{
    "POST", "/api/v1/logout", {Action::read_cluster, "user.logout"}, RouteErrors::storage_full,
    "",     "LogoutAnswer",   "revoke the token of this call"};
inline constexpr TypedRoute<None, PasswordRequest, PasswordAnswer> kPassword{
    "POST",
    "/api/v1/password",
    {Action::manage_self, "user.password"},
    RouteErrors::storage_full,
    "PasswordRequest",
    "PasswordAnswer",
    "change the caller's password"};
inline constexpr TypedRoute<None, FirstPasswordRequest, FirstPassword> kFirstPassword{
    "POST",
    "/api/v1/users/{user}/password",
    {Action::manage_users, "user.password"},
    RouteErrors::run_not_found_or_storage_full,
    "FirstPasswordRequest",
    "FirstPassword",
    "give a user a password for one log-in, at which it chooses its own"};
inline constexpr TypedRoute<None, LinkRequest, UserView> kLinkUser{
    "POST",
    "/api/v1/users/{user}/link",
    {Action::manage_users, "user.link"},
    RouteErrors::run_not_found_or_storage_full,
    "LinkRequest",
    "UserView",
    "let a user log in at the issuer of OIDC"};

}  // namespace lockstep::api
