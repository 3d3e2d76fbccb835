#include "platform/engine/k8s/client/credentials.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "platform/engine/k8s/client/credential_plugin.h"

namespace lockstep::engine {
namespace {

constexpr Duration kFileAgeMax = std::chrono::minutes(1);
// A credential that expires within this time is not used for a new call.
constexpr Duration kExpiryMargin = std::chrono::seconds(10);

}  // namespace

Credentials::Credentials(ClusterAccess access, const Clock& clock)
    : access_(std::move(access)), clock_(clock) {}

Result<Credentials::Read> Credentials::read() const {
  Read found;
  Secrets& secrets = found.secrets;
  secrets.authority = TRY(access_.authority.read());
  secrets.token = TRY(access_.token.read());
  while (secrets.token.ends_with('\n')) secrets.token.pop_back();
  secrets.certificate = TRY(access_.certificate.read());
  secrets.key = TRY(access_.key.read());
  found.until = clock_.now() + kFileAgeMax;
  // As kubectl: a token or certificate of the file counts before the plugin's.
  if (!access_.plugin || !secrets.token.empty() || !secrets.certificate.empty()) return found;
  auto made = TRY(call_plugin(access_, secrets.authority));
  secrets.token = std::move(made.token);
  secrets.certificate = std::move(made.certificate);
  secrets.key = std::move(made.key);
  found.until = made.expires ? *made.expires - kExpiryMargin : Time::max();
  return found;
}

Result<Secrets> Credentials::current() {
  const Lock lock(mutex_);
  if (!last_ || clock_.now() >= last_->until) last_ = TRY(read());
  return last_->secrets;
}

void Credentials::forget() {
  const Lock lock(mutex_);
  last_.reset();
}

}  // namespace lockstep::engine
