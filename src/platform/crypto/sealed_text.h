// Texts that are encrypted at rest: only the holder of the key can read or change them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "net/crypto.h"

namespace lockstep::crypto {

// "v1:" and base64, with a new nonce: sealing the same text twice gives two texts.
std::string seal(std::string_view text, const net::Secret& key);
// Code::corrupt: it was sealed with another key, or changed.
Result<std::string> open_sealed(std::string_view sealed, const net::Secret& key);

}  // namespace lockstep::crypto
