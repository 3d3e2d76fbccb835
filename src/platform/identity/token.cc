#include "platform/identity/token.h"

#include <algorithm>
#include <cstddef>

#include "net/crypto.h"

namespace lockstep::identity {
namespace {

constexpr std::string_view kPrefix = "lst_";
constexpr std::size_t kIdSize = 12;
constexpr std::size_t kSecretSize = 43;
constexpr std::string_view kCharacters =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

bool is_token_character(char c) { return kCharacters.find(c) != std::string_view::npos; }

int value_of(char hex_digit) { return hex_digit <= '9' ? hex_digit - '0' : hex_digit - 'a' + 10; }

// Each character is as probable as any other: bytes from 248 on are left out.
std::string random_characters(std::size_t count) {
  constexpr std::size_t kBytesUsed = 256 / kCharacters.size() * kCharacters.size();
  std::string characters;
  while (characters.size() < count) {
    const std::string digits = net::random_hex(1);
    const auto byte = static_cast<std::size_t>(16 * value_of(digits[0]) + value_of(digits[1]));
    if (byte < kBytesUsed) characters += kCharacters[byte % kCharacters.size()];
  }
  return characters;
}

}  // namespace

TokenText new_token() {
  return {.id = random_characters(kIdSize), .secret = random_characters(kSecretSize)};
}

std::string text(const TokenText& token) {
  return std::string(kPrefix) + token.id + "_" + token.secret;
}

std::optional<TokenText> parse_token(std::string_view words) {
  if (!words.starts_with(kPrefix)) return std::nullopt;
  words.remove_prefix(kPrefix.size());
  if (words.size() != kIdSize + 1 + kSecretSize || words[kIdSize] != '_') return std::nullopt;
  const std::string_view id = words.substr(0, kIdSize), secret = words.substr(kIdSize + 1);
  if (!std::ranges::all_of(id, is_token_character) ||
      !std::ranges::all_of(secret, is_token_character))
    return std::nullopt;
  return TokenText{.id = std::string(id), .secret = std::string(secret)};
}

std::string secret_hash(const TokenText& token) { return net::sha256_hex(token.secret); }

const Token* find_token(const Directory& directory, std::string_view words, Time now) {
  const auto token = parse_token(words);
  if (!token) return nullptr;
  const auto row = directory.tokens.find(token->id);
  if (row == directory.tokens.end()) return nullptr;
  if (!net::equal_constant_time(row->second.secret_hash, secret_hash(*token))) return nullptr;
  if (row->second.ends && *row->second.ends <= now) return nullptr;
  return is_active(directory, row->second.user) ? &row->second : nullptr;
}

}  // namespace lockstep::identity
