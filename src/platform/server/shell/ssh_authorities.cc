#include "platform/server/shell/ssh_authorities.h"

#include <chrono>

#include "base/format.h"
#include "platform/host/ssh_keys.h"

namespace lockstep::server {
namespace {

// A session goes on after it; each new one gets another.
constexpr Duration kCertificateLifetime = std::chrono::hours(24);

}  // namespace

std::string ssh_principal(const model::AttemptName& attempt) {
  return format("{}:{}", attempt.generation, text(attempt.id));
}

std::string ssh_host_name(const model::NodeId& node) {
  return format("{}.{}.{}.{}", node.index, node.attempt.epoch, node.attempt.run.number,
                node.attempt.run.project);
}

Result<SignedKey> SshAuthorities::sign_user_key(const std::string& key, const std::string& user,
                                                const model::AttemptName& attempt) const {
  const std::string hosts = TRY(host::open_ssh_key(host_authority()));
  TRY(host::open_ssh_key(user_authority()));
  return SignedKey{
      .certificate = TRY(host::sign_ssh_key({.authority = user_authority(),
                                             .public_key = key,
                                             .id = format("{} {}", user, text(attempt.id)),
                                             .principal = ssh_principal(attempt),
                                             .lifetime = kCertificateLifetime})),
      .other_authority = hosts};
}

Result<SignedKey> SshAuthorities::sign_host_key(const std::string& key,
                                                const model::NodeId& node) const {
  const std::string users = TRY(host::open_ssh_key(user_authority()));
  TRY(host::open_ssh_key(host_authority()));
  return SignedKey{.certificate = TRY(host::sign_ssh_key({.authority = host_authority(),
                                                          .public_key = key,
                                                          .id = text(node),
                                                          .principal = ssh_host_name(node),
                                                          .is_host = true,
                                                          .lifetime = kCertificateLifetime})),
                   .other_authority = users};
}

}  // namespace lockstep::server
