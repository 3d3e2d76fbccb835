// The text of a user's token: lst_ID_SECRET. The daemon keeps the id and the hash of the secret,
// which is enough because the secret is random.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "platform/identity/directory.h"

namespace lockstep::identity {

struct TokenText {
  std::string id;      // 12 letters and digits
  std::string secret;  // 43 of them: more than 255 bits
};

TokenText new_token();
std::string text(const TokenText& token);
// Nothing unless text() could have made it.
std::optional<TokenText> parse_token(std::string_view words);

// 64 hex digits.
std::string secret_hash(const TokenText& token);

// The row of this token, if it has not ended and its user may call. A look-up by the id, and one
// comparison of hashes that takes the same time wherever they differ.
const Token* find_token(const Directory& directory, std::string_view words, Time now);

}  // namespace lockstep::identity
