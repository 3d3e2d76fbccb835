#include "platform/api/proof.h"

#include <algorithm>

#include "base/format.h"
#include "net/crypto.h"

namespace lockstep::api {
namespace {

constexpr int kNonceBytes = 32;

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

std::string new_nonce() { return net::random_hex(kNonceBytes); }

Result<void> check_nonce(std::string_view nonce) {
  if (nonce.size() >= 16 && nonce.size() <= 128 && std::ranges::all_of(nonce, is_letter_or_digit))
    return {};
  return Error{Code::invalid, "the query: nonce: expected 16 to 128 letters and digits"};
}

std::string daemon_proof(std::string_view token, int port, std::string_view nonce) {
  // A token may have any length, a key may not.
  const net::Secret key = net::Secret::from_hex(net::sha256_hex(token)).value();
  return net::hmac_sha256_hex(key, format("daemon at port {}: {}", port, nonce));
}

}  // namespace lockstep::api
