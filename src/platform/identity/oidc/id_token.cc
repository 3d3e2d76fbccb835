#include "platform/identity/oidc/id_token.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/format.h"

namespace lockstep::identity {
namespace {

constexpr Duration kTolerance = std::chrono::minutes(1);
constexpr Duration kAgeMax = std::chrono::minutes(5);
constexpr double kSecondsMax = 253402300799;  // the end of the year 9999

Error refused(std::string reason) { return {Code::denied, "the ID token " + std::move(reason)}; }

Result<std::string> text_claim(const Json& claims, const char* name) {
  const auto found = claims.find(name);
  if (found != claims.end() && found->is_string()) return found->get<std::string>();
  return refused(format("has no claim {}", name));
}

Result<Time> time_claim(const Json& claims, const char* name) {
  const auto found = claims.find(name);
  if (found != claims.end() && found->is_number()) {
    const double seconds = found->get<double>();
    if (seconds >= 0 && seconds <= kSecondsMax)
      return Time(std::chrono::seconds(static_cast<std::int64_t>(std::floor(seconds))));
  }
  return refused(format("has no time {}", name));
}

Result<void> check_audience(const Json& claims, const std::string& client) {
  const auto found = claims.find("aud");
  const Json audience = found == claims.end() ? Json() : *found;
  if (audience.is_string()
          ? audience != client
          : !audience.is_array() || std::ranges::find(audience, Json(client)) == audience.end())
    return refused("is for another client of the issuer");
  const auto party = claims.find("azp");
  const bool is_named = party != claims.end();
  if (is_named ? *party != Json(client) : audience.is_array() && audience.size() > 1)
    return refused("was made for another client of the issuer");
  return {};
}

Result<void> check_times(const Json& claims, Time now) {
  const Time ends = TRY(time_claim(claims, "exp"));
  const Time issued = TRY(time_claim(claims, "iat"));
  const auto shown = [](Time time) {
    return lockstep::text(Time(std::chrono::floor<std::chrono::seconds>(time)));
  };
  if (issued > now + kTolerance)
    return refused(
        format("was issued at {}, but this machine's clock says {}: it is behind the "
               "issuer's; set it",
               shown(issued), shown(now)));
  if (ends <= now - kTolerance)
    return refused(
        format("ended at {}, and this machine's clock says {}: log in again, or set the "
               "clock if it is ahead",
               shown(ends), shown(now)));
  if (issued < now - kAgeMax - kTolerance)
    return refused(
        format("was issued at {}, but this machine's clock says {}: log in again, or "
               "set the clock if it is ahead of the issuer's",
               shown(issued), shown(now)));
  return {};
}

}  // namespace

Result<Claims> check_claims(std::string_view payload, const ExpectedToken& expected, Time now) {
  auto claims = parse_json(payload);
  if (!claims || !claims->is_object()) return refused("has no claims that can be read");
  if (TRY(text_claim(*claims, "iss")) != expected.issuer) return refused("is of another issuer");
  TRY(check_audience(*claims, expected.client));
  TRY(check_times(*claims, now));
  if (expected.nonce && TRY(text_claim(*claims, "nonce")) != *expected.nonce)
    return refused("is of another log-in: its nonce differs");
  std::string subject = TRY(text_claim(*claims, "sub"));
  if (subject.empty()) return refused("has no claim sub");
  return Claims{std::move(subject), *std::move(claims)};
}

}  // namespace lockstep::identity
