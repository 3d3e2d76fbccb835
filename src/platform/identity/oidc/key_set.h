// KeySet: the public keys with which an issuer signs, and the check of a signature by libcjose.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::identity {

class KeySet {
 public:
  // A JSON Web Key Set (RFC 7517). Keys that cannot check RS256 or ES256 are left out: of another
  // type or curve, for encryption, or of RSA with less than 2,048 bits.
  static Result<KeySet> parse(std::string_view json);
  KeySet(KeySet&&) noexcept;
  KeySet& operator=(KeySet&&) noexcept;
  ~KeySet();

  std::size_t size() const;
  // The payload of a JSON Web Signature in compact form. Code::denied: its algorithm is not RS256
  // or ES256, or it was not signed by these keys; Code::not_found: the key that it names is not one
  // of them.
  Result<std::string> verified_payload(const std::string& token) const;

 private:
  struct Impl;
  explicit KeySet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::identity
