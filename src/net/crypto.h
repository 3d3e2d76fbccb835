// The cryptography with which processes of one run authenticate each other: a shared secret,
// HMAC-SHA-256 over challenges, digests and random names. It uses OpenSSL.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::net {

// 32 secret bytes. There is no formatter for it, so it reaches no log or message by accident; hex()
// is for the file of mode 0600 and for the HMACs derived from it.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  static Secret random();
  // 64 hex digits, with or without a newline at the end as files have it. The error does not quote
  // the text.
  static Result<Secret> from_hex(std::string_view digits);
  std::string hex() const;
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  Secret() = default;
  std::array<unsigned char, kBytes> bytes_{};
};

// 64 lower-case hex digits.
std::string hmac_sha256_hex(const Secret& secret, std::string_view message);
std::string sha256_hex(std::string_view message);
std::array<std::byte, 32> sha256(std::string_view message);

// The same of a message that comes in parts.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void add(std::string_view part);
  // The digest of all parts. Call it once, as the last.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 2 * bytes hex digits from the system's generator: nonces, tokens, names that cannot be guessed.
std::string random_hex(int bytes);
// Takes as long for a near miss as for a far one, so that timing reveals nothing.
bool equal_constant_time(std::string_view a, std::string_view b);

}  // namespace lockstep::net
