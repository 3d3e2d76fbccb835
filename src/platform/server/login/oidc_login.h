// OidcLogin: log-ins of the users of an OpenID Connect issuer. The issuer is called on a thread of
// its own.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "platform/api/login_routes.h"
#include "platform/core/model/state.h"
#include "platform/identity/oidc/begun_logins.h"
#include "platform/identity/oidc/issuer.h"
#include "platform/identity/oidc/role_table.h"
#include "platform/server/login/loop_tasks.h"
#include "platform/server/people/accounts.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

struct OidcSetup {
  identity::IssuerSettings issuer;
  std::filesystem::path roles_file{};  // empty: all users of the issuer log in, without roles
  std::string authorities{};           // PEM; empty: the system's

  bool operator==(const OidcSetup&) const = default;
};

class OidcLogin {
 public:
  // All outlive this. `state` is the controller's.
  OidcLogin(net::Loop& loop, const OidcSetup& setup, Accounts& accounts, const model::State& state,
            const Clock& clock);

  Result<void> start_device(const RouteCall<api::kDeviceLogin>& call,
                            const Reply<api::DeviceLogin>& reply);
  Result<void> poll_device(const RouteCall<api::kDevicePoll>& call,
                           const Reply<api::DevicePollAnswer>& reply);

  // A log-in by a browser: `browser` is a name that only it knows.
  using Url = std::function<void(const Result<std::string>& url)>;
  using LoggedIn = std::function<void(const Result<api::LoginAnswer>& login)>;
  // The address of the issuer to which the browser goes.
  Result<void> start_code(const std::string& browser, const std::string& redirect_uri,
                          const Url& then);
  // The issuer sent the browser back with these.
  Result<void> finish_code(const std::string& browser, const std::string& state,
                           const std::string& code, const Principal& caller, const LoggedIn& then);

 private:
  struct DeviceWait {
    std::string device_code;
    Duration interval{};
    Duration next_poll{};
    bool is_asking = false;
  };
  struct CodeWait {
    identity::CodeSecrets secrets;
    std::string browser, redirect_uri;
  };
  // A user that the issuer has named, as the table of now has it.
  Result<identity::OidcUser> user_of(const identity::Claims& claims) const;
  Result<identity::RoleTable> read_table() const;
  Result<api::DevicePollAnswer> polled(const std::string& login, const Principal& caller,
                                       const Result<std::optional<identity::OidcUser>>& user,
                                       bool is_too_fast);
  Result<api::LoginAnswer> log_in(const identity::OidcUser& user, const Principal& caller);

  const OidcSetup setup_;
  Accounts& accounts_;
  const model::State& state_;
  const Clock& clock_;
  identity::BegunLogins<DeviceWait> devices_;
  identity::BegunLogins<CodeWait> codes_;
  identity::NetIssuerHttp http_;
  identity::Issuer issuer_;  // of the thread
  LoopTasks tasks_;          // the last member: its work uses the others
};

}  // namespace lockstep::server
