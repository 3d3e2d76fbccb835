#include "net/base64.h"

#include <algorithm>
#include <limits>

#include <openssl/evp.h>

#include "base/check.h"

namespace lockstep::net {
namespace {

constexpr std::size_t kMost = std::numeric_limits<int>::max() / 2;  // OpenSSL counts in int

}  // namespace

std::string to_base64(std::span<const std::byte> bytes) {
  LS_CHECK(bytes.size() <= kMost);
  std::string text((bytes.size() + 2) / 3 * 4, '\0');  // OpenSSL also appends a zero
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  return text;
}

std::string to_base64url(std::span<const std::byte> bytes) {
  std::string text = to_base64(bytes);
  while (text.ends_with('=')) text.pop_back();
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

// OpenSSL accepts spaces at both ends, and anything after a padding. So the result is encoded again
// and compared.
std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  if (text.size() % 4 != 0 || text.size() > kMost) return std::nullopt;
  std::vector<std::byte> bytes(text.size() / 4 * 3);
  const int found = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()));
  if (found != static_cast<int>(bytes.size())) return std::nullopt;
  if (text.ends_with("=")) bytes.pop_back();
  if (text.ends_with("==")) bytes.pop_back();
  if (to_base64(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace lockstep::net
