// How a daemon proves that it knows a token before the token is sent to it. Its port may have gone
// to another program since its address was written down.
//
// The caller sends a nonce that nobody has used; the answer is an HMAC of it under the token. The
// port is part of it, so that a stranger at another port cannot have a daemon answer for him.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::api {

std::string new_nonce();
// 16 to 128 letters and digits.
Result<void> check_nonce(std::string_view nonce);

// 64 lower-case hex digits. `port`: where the daemon listens, and the caller connected.
std::string daemon_proof(std::string_view token, int port, std::string_view nonce);

}  // namespace lockstep::api
