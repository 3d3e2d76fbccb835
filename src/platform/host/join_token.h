// JoinToken: with it the service of a host gets a credential from the daemon, once.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::host {

struct JoinToken {
  std::string host;   // its id on the map
  std::string pod;    // of the map
  int number = 0;     // of the host's credential when the token was made; used: it is higher
  Time end{};         // whole seconds
  std::string proof;  // by the daemon's key: Keys::join_proof
};

// "gpu1:default:0:1795000000", which is no secret.
std::string join_token_subject(const JoinToken& token);
Result<JoinToken> parse_join_token_subject(std::string_view words);
// "gpu1:default:0:1795000000:5d41...", as users hand it over. Secret.
std::string join_token_text(const JoinToken& token);
// The error does not have the token.
Result<JoinToken> parse_join_token(std::string_view words);

}  // namespace lockstep::host
