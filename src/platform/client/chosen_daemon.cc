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

Result<RemoteDaemon> by_url(const Environment& environment) {
  Profile profile{.url = variable(environment, "LOCKSTEP_URL"), .token = {}};
  if (auto url = net::parse_url(profile.url); !url)
    return std::move(url).error().with_context("LOCKSTEP_URL");
  if (variable(environment, "LOCKSTEP_TOKEN_FILE").empty())
    return Error{Code::invalid,
                 "LOCKSTEP_URL is set and LOCKSTEP_TOKEN_FILE is not; set it to a file with the "
                 "token of that daemon"};
  profile.token = TRY(content_of(environment, "LOCKSTEP_TOKEN_FILE", kTokenMax));
  while (profile.token.ends_with('\n') || profile.token.ends_with('\r')) profile.token.pop_back();
  if (!variable(environment, "LOCKSTEP_CA_FILE").empty())
    profile.authorities = TRY(content_of(environment, "LOCKSTEP_CA_FILE", kAuthoritiesMax));
  return RemoteDaemon{.source = "LOCKSTEP_URL", .profile = std::move(profile)};
}

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
    return std::optional(TRY(by_url(environment)));
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
