// How a daemon proves that it knows a token before the token is sent to it. Another program may use
// its port since its address was stored.
//
// The caller sends a new nonce; the answer is an HMAC of it under the token. The HMAC includes the
// port, so that a program at another port cannot relay the challenge to a daemon.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::api {

std::string new_nonce();
// 16 to 128 letters and digits.
Result<void> check_nonce(std::string_view nonce);

// 64 lower-case hex digits. `port`: the port on which the daemon listens, and to which the caller
// connected.
std::string daemon_proof(std::string_view token, int port, std::string_view nonce);
// The same by a daemon that has only the hash of a user's token (identity::secret_hash).
std::string daemon_proof_by_hash(std::string_view secret_hash, int port, std::string_view nonce);

}  // namespace lockstep::api
