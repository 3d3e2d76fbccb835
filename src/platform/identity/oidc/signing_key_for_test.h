// A key of an issuer, which signs ID tokens in tests.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include <cjose/cjose.h>

#include "base/check.h"
#include "text/json.h"

namespace lockstep::identity {

class SigningKey {
 public:
  static SigningKey rsa(const std::string& id, int bits = 2048) {
    cjose_err error{};
    return {id, "RS256",
            cjose_jwk_create_RSA_random(static_cast<std::size_t>(bits), kExponent, sizeof kExponent,
                                        &error)};
  }
  static SigningKey ec(const std::string& id, cjose_jwk_ec_curve curve = CJOSE_JWK_EC_P_256) {
    cjose_err error{};
    return {id, curve == CJOSE_JWK_EC_P_256 ? "ES256" : "ES384",
            cjose_jwk_create_EC_random(curve, &error)};
  }
  static SigningKey shared_secret(const std::string& id, const std::string& bytes) {
    cjose_err error{};
    return {id, "HS256",
            cjose_jwk_create_oct_spec(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                      bytes.size(), &error)};
  }

  Json public_json() const {
    cjose_err error{};
    char* words = cjose_jwk_to_json(key_.get(), false, &error);
    LS_CHECK(words != nullptr);
    Json json = *parse_json(words);
    std::free(words);
    return json;
  }
  std::string sign(const Json& claims) const {
    cjose_err error{};
    cjose_header_t* header = cjose_header_new(&error);
    LS_CHECK(cjose_header_set(header, CJOSE_HDR_ALG, algorithm_.c_str(), &error));
    if (!id_.empty()) LS_CHECK(cjose_header_set(header, CJOSE_HDR_KID, id_.c_str(), &error));
    const std::string payload = dump_json(claims);
    cjose_jws_t* signature =
        cjose_jws_sign(key_.get(), header, reinterpret_cast<const std::uint8_t*>(payload.data()),
                       payload.size(), &error);
    LS_CHECK(signature != nullptr, "{}", error.message);
    const char* words = nullptr;
    LS_CHECK(cjose_jws_export(signature, &words, &error));
    std::string token = words;
    cjose_jws_release(signature);
    cjose_header_release(header);
    return token;
  }
  // The same key under another id, such as one that signs a token without an id.
  SigningKey named(const std::string& id) const {
    cjose_err error{};
    return {id, algorithm_, cjose_jwk_retain(key_.get(), &error)};
  }

 private:
  struct Release {
    void operator()(cjose_jwk_t* key) const { cjose_jwk_release(key); }
  };
  SigningKey(std::string id, std::string algorithm, cjose_jwk_t* key)
      : id_(std::move(id)), algorithm_(std::move(algorithm)), key_(key) {
    LS_CHECK(key != nullptr);
    cjose_err error{};
    if (!id_.empty()) LS_CHECK(cjose_jwk_set_kid(key, id_.data(), id_.size(), &error));
  }

  static constexpr std::uint8_t kExponent[] = {1, 0, 1};
  std::string id_, algorithm_;
  std::unique_ptr<cjose_jwk_t, Release> key_;
};

}  // namespace lockstep::identity
