#include "platform/crypto/password_hash.h"

#include <array>
#include <string_view>

#include <sodium.h>

#include "base/check.h"
#include "base/format.h"

namespace lockstep::crypto {
namespace {

constexpr auto kPasses = crypto_pwhash_OPSLIMIT_INTERACTIVE;
constexpr auto kMemory = crypto_pwhash_MEMLIMIT_INTERACTIVE;
constexpr std::size_t kRandomPasswordSize = 20;

void start_password_library() { LS_CHECK(sodium_init() >= 0, "libsodium does not start"); }

}  // namespace

Result<void> check_password(const std::string& password) {
  if (password.size() >= kPasswordMin && password.size() <= kPasswordMax) return {};
  return Error{Code::invalid, format("a password has {} to {} bytes, got {}", kPasswordMin,
                                     kPasswordMax, password.size())};
}

Result<std::string> hash_password(const std::string& password) {
  start_password_library();
  std::array<char, crypto_pwhash_STRBYTES> hash{};
  if (crypto_pwhash_str(hash.data(), password.data(), password.size(), kPasses, kMemory) != 0)
    return Error{Code::unavailable,
                 format("there is no memory for the hash of a password ({} MiB)", kMemory >> 20)};
  return std::string(hash.data());
}

bool is_password(const std::string& hash, const std::string& password) {
  start_password_library();
  return crypto_pwhash_str_verify(hash.c_str(), password.data(), password.size()) == 0;
}

void spend_check(const std::string& password) {
  static const Result<std::string> decoy = hash_password(random_password());
  if (decoy) (void)is_password(*decoy, password);
}

std::string random_password() {
  constexpr std::string_view kCharacters = "23456789abcdefghjkmnpqrstuvwxyz";
  start_password_library();
  std::string password;
  for (std::size_t i = 0; i < kRandomPasswordSize; ++i)
    password += kCharacters[randombytes_uniform(kCharacters.size())];
  return password;
}

}  // namespace lockstep::crypto
