#include "net/crypto.h"

#include <algorithm>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "base/check.h"

namespace lockstep::net {
namespace {

std::string hex_of(const unsigned char* bytes, std::size_t count) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    hex += kDigits[bytes[i] >> 4];
    hex += kDigits[bytes[i] & 15];
  }
  return hex;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The kernel's generator, since that of OpenSSL takes a millisecond to begin. There is no secure
// alternative to randomness, so a failing generator ends the program.
void fill_random(unsigned char* bytes, std::size_t count) {
  constexpr std::size_t kMost = 256;  // of one call
  for (std::size_t done = 0; done < count; done += kMost)
    LS_CHECK(::getentropy(bytes + done, std::min(count - done, kMost)) == 0,
             "the system's random generator failed");
}

}  // namespace

Secret Secret::random() {
  Secret secret;
  fill_random(secret.bytes_.data(), secret.bytes_.size());
  return secret;
}

Result<Secret> Secret::from_hex(std::string_view digits) {
  while (!digits.empty() && (digits.back() == '\n' || digits.back() == '\r'))
    digits.remove_suffix(1);
  if (digits.size() != 2 * kBytes)
    return Error{Code::invalid,
                 format("a secret is {} hex digits, got {} characters", 2 * kBytes, digits.size())};
  Secret secret;
  for (std::size_t i = 0; i < kBytes; ++i) {
    const int high = digit_value(digits[2 * i]);
    const int low = digit_value(digits[2 * i + 1]);
    if (high < 0 || low < 0)
      return Error{Code::invalid, "a secret is hex digits only, got another character"};
    secret.bytes_[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return secret;
}

std::string Secret::hex() const { return hex_of(bytes_.data(), bytes_.size()); }

std::string hmac_sha256_hex(const Secret& secret, std::string_view message) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  const auto key = secret.bytes();
  LS_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                digest.data(), &length) != nullptr);
  return hex_of(digest.data(), length);
}

std::string sha256_hex(std::string_view message) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  LS_CHECK(EVP_Digest(message.data(), message.size(), digest.data(), &length, EVP_sha256(),
                      nullptr) == 1);
  return hex_of(digest.data(), length);
}

std::array<std::byte, 32> sha256(std::string_view message) {
  std::array<std::byte, 32> digest{};
  LS_CHECK(EVP_Digest(message.data(), message.size(),
                      reinterpret_cast<unsigned char*>(digest.data()), nullptr, EVP_sha256(),
                      nullptr) == 1);
  return digest;
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  LS_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::string_view part) {
  LS_CHECK(EVP_DigestUpdate(state_->context, part.data(), part.size()) == 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  LS_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &length) == 1);
  return hex_of(digest.data(), length);
}

std::string random_hex(int bytes) {
  LS_CHECK(bytes >= 0);
  std::vector<unsigned char> random(static_cast<std::size_t>(bytes));
  fill_random(random.data(), random.size());
  return hex_of(random.data(), random.size());
}

bool equal_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lockstep::net
