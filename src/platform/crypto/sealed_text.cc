#include "platform/crypto/sealed_text.h"

#include <cstddef>
#include <span>
#include <vector>

#include <sodium.h>

#include "base/check.h"
#include "net/base64.h"

namespace lockstep::crypto {
namespace {

constexpr std::string_view kVersion = "v1:";
constexpr std::size_t kNonceBytes = crypto_secretbox_NONCEBYTES;
constexpr std::size_t kTagBytes = crypto_secretbox_MACBYTES;
static_assert(crypto_secretbox_KEYBYTES == net::Secret::kBytes);

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Error not_sealed() { return {Code::corrupt, "it was encrypted with another key, or was changed"}; }

}  // namespace

std::string seal(std::string_view text, const net::Secret& key) {
  LS_CHECK(sodium_init() >= 0, "libsodium does not start");
  std::vector<unsigned char> sealed(kNonceBytes + kTagBytes + text.size());
  randombytes_buf(sealed.data(), kNonceBytes);
  LS_CHECK(crypto_secretbox_easy(sealed.data() + kNonceBytes, bytes_of(text), text.size(),
                                 sealed.data(), bytes_of(key.bytes())) == 0);
  return std::string(kVersion) + net::to_base64(std::as_bytes(std::span(sealed)));
}

Result<std::string> open_sealed(std::string_view sealed, const net::Secret& key) {
  LS_CHECK(sodium_init() >= 0, "libsodium does not start");
  if (!sealed.starts_with(kVersion)) return not_sealed();
  const auto bytes = net::from_base64(sealed.substr(kVersion.size()));
  if (!bytes || bytes->size() < kNonceBytes + kTagBytes) return not_sealed();
  const auto* nonce = reinterpret_cast<const unsigned char*>(bytes->data());
  std::string text(bytes->size() - kNonceBytes - kTagBytes, '\0');
  if (crypto_secretbox_open_easy(reinterpret_cast<unsigned char*>(text.data()), nonce + kNonceBytes,
                                 bytes->size() - kNonceBytes, nonce, bytes_of(key.bytes())) != 0)
    return not_sealed();
  return text;
}

}  // namespace lockstep::crypto
