#include "platform/client/chosen_daemon.h"

#include <utility>

#include "base/format.h"
#include "base/os/files.h"
#include "net/http/url.h"
#include "platform/host/home.h"

namespace lockstep::client {
namespace {

constexpr std::size_t kTokenMax = 4096;
constexpr std::size_t kAuthoritiesMax = 1 << 20;

// Empty and unset are the same.
std::string variable(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

Result<std::string> content_of(const Environment& environment, const char* name,
                               std::size_t limit) {
  auto content = read_file(variable(environment, name), limit);
  if (!content) return std::move(content).error().with_context(name);
  return content;
}

// An address without a fingerprint matches one with it.
bool is_same_daemon(const std::string& wanted, const std::string& known) {
  return wanted == known || wanted == known.substr(0, known.find('#'));
}

// A login of the user to this address.
std::optional<RemoteDaemon> login_at(const Environment& environment, const std::string& url) {
  const auto profiles = Profiles::of_user(environment);
  if (!profiles) return std::nullopt;
  for (const std::string& name : profiles->names().value_or(std::vector<std::string>())) {
    auto profile = profiles->read(name);
    if (profile && is_same_daemon(url, profile->url))
      return RemoteDaemon{.source = "LOCKSTEP_URL", .profile = *std::move(profile)};
  }
  return std::nullopt;
}

}  // namespace

Result<RemoteDaemon> remote_at_url(const Environment& environment) {
  Profile profile{.url = variable(environment, "LOCKSTEP_URL"), .token = {}};
  if (auto url = net::parse_url(profile.url); !url)
    return std::move(url).error().with_context("LOCKSTEP_URL");
  if (variable(environment, "LOCKSTEP_TOKEN_FILE").empty()) {
    if (auto login = login_at(environment, profile.url)) return *std::move(login);
    return Error{Code::invalid,
                 "LOCKSTEP_URL is set and LOCKSTEP_TOKEN_FILE is not; set it to a file with the "
                 "token of that daemon, or log in with `lockstep login`"};
  }
  profile.token = TRY(content_of(environment, "LOCKSTEP_TOKEN_FILE", kTokenMax));
  while (profile.token.ends_with('\n') || profile.token.ends_with('\r')) profile.token.pop_back();
  if (!variable(environment, "LOCKSTEP_CA_FILE").empty())
    profile.authorities = TRY(content_of(environment, "LOCKSTEP_CA_FILE", kAuthoritiesMax));
  return RemoteDaemon{.source = "LOCKSTEP_URL", .profile = std::move(profile)};
}

namespace {

Result<std::optional<RemoteDaemon>> by_profile(const Environment& environment,
                                               const std::string& name) {
  const auto profiles = TRY(Profiles::of_user(environment));
  return std::optional(RemoteDaemon{.source = format("the profile '{}'", name),
                                    .profile = TRY(profiles.read(name))});
}

}  // namespace

Result<std::optional<RemoteDaemon>> chosen_remote(const Environment& environment) {
  if (const auto name = variable(environment, "LOCKSTEP_PROFILE"); !name.empty())
    return by_profile(environment, name);
  if (!variable(environment, "LOCKSTEP_URL").empty())
    return std::optional(TRY(remote_at_url(environment)));
  if (!variable(environment, "LOCKSTEP_HOME").empty() || !Profiles::of_user(environment))
    return std::optional<RemoteDaemon>();
  auto found = by_profile(environment, kDefaultProfile);
  if (!found && found.error().code == Code::not_found) return std::optional<RemoteDaemon>();
  return found;
}

Result<Client> open_remote(const RemoteDaemon& daemon, WhenLate when_late) {
  const Profile& profile = daemon.profile;
  Client client = Client::to_daemon(profile.url, profile.token, profile.authorities.value_or(""),
                                    std::move(when_late));
  auto well = client.call(api::kHealth);
  if (well) return client;
  return std::move(well).error().with_context(daemon.source);
}

Result<Client> open_chosen(const Environment& environment) {
  if (const auto remote = TRY(chosen_remote(environment))) return open_remote(*remote);
  return Client::open(TRY(host::Home::find({.environment = environment})));
}

}  // namespace lockstep::client
