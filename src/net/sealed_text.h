// Sealed text: only holders of the secret can read it, and a change of it is noticed. AES-256-GCM
// of OpenSSL.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "net/crypto.h"

namespace lockstep::net {

// In base64. It opens only with the same `context`, which is no secret, such as a name of its
// owner: so no sealed text can take the place of another one. Use one secret for fewer than 2^32
// texts.
std::string seal(const Secret& secret, std::string_view context, std::string_view text);
// Code::corrupt, without a part of the text: another secret or context, or changed bytes.
Result<std::string> unseal(const Secret& secret, std::string_view context, std::string_view sealed);

}  // namespace lockstep::net
