#include "platform/api/proof.h"

#include <algorithm>

#include "base/format.h"
#include "net/crypto.h"
#include "platform/identity/token.h"

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

// A token may have any length, a key may not.
std::string daemon_proof(std::string_view token, int port, std::string_view nonce) {
  const auto of_user = identity::parse_token(token);
  return daemon_proof_by_hash(of_user ? identity::secret_hash(*of_user) : net::sha256_hex(token),
                              port, nonce);
}

std::string daemon_proof_by_hash(std::string_view secret_hash, int port, std::string_view nonce) {
  const net::Secret key = net::Secret::from_hex(secret_hash).value();
  return net::hmac_sha256_hex(key, format("daemon at port {}: {}", port, nonce));
}

}  // namespace lockstep::api
