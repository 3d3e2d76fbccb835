// The checks of an ID token's claims (OpenID Connect Core 1.0, 3.1.3.7), after that of its
// signature. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "text/json.h"

namespace lockstep::identity {

struct ExpectedToken {
  std::string issuer;
  std::string client;
  std::optional<std::string> nonce{};  // none: the flow has none
};

struct Claims {
  std::string subject;
  Json all;
};

// Code::denied: the token is not one for this log-in. An error about times has the token's time and
// `now`, because the clock of this machine may be wrong.
Result<Claims> check_claims(std::string_view payload, const ExpectedToken& expected, Time now);

}  // namespace lockstep::identity
