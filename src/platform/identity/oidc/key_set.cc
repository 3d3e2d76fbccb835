#include "platform/identity/oidc/key_set.h"

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include <cjose/cjose.h>

#include "base/format.h"
#include "text/json.h"

namespace lockstep::identity {
namespace {

constexpr std::size_t kTokenMax = 64 << 10;
constexpr Bytes kKeysMax = 1_MiB;
constexpr std::size_t kRsaBitsMin = 2048;

struct ReleaseKey {
  void operator()(cjose_jwk_t* key) const { cjose_jwk_release(key); }
};
struct ReleaseSignature {
  void operator()(cjose_jws_t* signature) const { cjose_jws_release(signature); }
};
using KeyHandle = std::unique_ptr<cjose_jwk_t, ReleaseKey>;
using SignatureHandle = std::unique_ptr<cjose_jws_t, ReleaseSignature>;

struct PublicKey {
  std::string id;  // may be empty
  std::string algorithm;
  KeyHandle key;
};

std::string text_at(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// The algorithm whose signatures the key checks; empty: none that we take.
std::string algorithm_of(const cjose_jwk_t* key) {
  cjose_err error{};
  switch (cjose_jwk_get_kty(key, &error)) {
    case CJOSE_JWK_KTY_RSA:
      return cjose_jwk_get_keysize(key, &error) >= kRsaBitsMin ? CJOSE_HDR_ALG_RS256 : "";
    case CJOSE_JWK_KTY_EC:
      return cjose_jwk_EC_get_curve(key, &error) == CJOSE_JWK_EC_P_256 ? CJOSE_HDR_ALG_ES256 : "";
    case CJOSE_JWK_KTY_OCT:
      break;
  }
  return "";
}

std::optional<PublicKey> read_key(const Json& json) {
  if (!json.is_object() || text_at(json, "use") == "enc") return std::nullopt;
  const std::string words = dump_json(json);
  cjose_err error{};
  KeyHandle key(cjose_jwk_import(words.data(), words.size(), &error));
  if (!key) return std::nullopt;
  std::string algorithm = algorithm_of(key.get());
  const std::string only = text_at(json, "alg");
  if (algorithm.empty() || (!only.empty() && only != algorithm)) return std::nullopt;
  return PublicKey{text_at(json, "kid"), std::move(algorithm), std::move(key)};
}

SignatureHandle read_signature(const std::string& token) {
  cjose_err error{};
  return SignatureHandle(cjose_jws_import(token.data(), token.size(), &error));
}

std::string header_text(cjose_jws_t* signature, const char* name) {
  cjose_err error{};
  const char* value = cjose_header_get(cjose_jws_get_protected(signature), name, &error);
  return value == nullptr ? "" : value;
}

// An extension that its reader must know: we know none.
bool has_critical_extension(cjose_jws_t* signature) {
  cjose_err error{};
  char* value = cjose_header_get_raw(cjose_jws_get_protected(signature), "crit", &error);
  const bool found = value != nullptr;
  std::free(value);
  return found;
}

std::optional<std::string> payload_signed_by(const PublicKey& key, const std::string& token) {
  const SignatureHandle signature = read_signature(token);
  cjose_err error{};
  if (!signature || !cjose_jws_verify(signature.get(), key.key.get(), &error)) return std::nullopt;
  std::uint8_t* payload = nullptr;
  std::size_t size = 0;
  if (!cjose_jws_get_plaintext(signature.get(), &payload, &size, &error)) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(payload), size);
}

}  // namespace

struct KeySet::Impl {
  std::vector<PublicKey> keys;
};

KeySet::KeySet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KeySet::KeySet(KeySet&&) noexcept = default;
KeySet& KeySet::operator=(KeySet&&) noexcept = default;
KeySet::~KeySet() = default;

Result<KeySet> KeySet::parse(std::string_view json) {
  const Json all = TRY(parse_json(json, {.size = kKeysMax}));
  const auto keys = all.is_object() ? all.find("keys") : all.end();
  if (!all.is_object() || keys == all.end() || !keys->is_array())
    return Error{Code::corrupt, "it is no set of keys: it has no list `keys`"};
  auto impl = std::make_unique<Impl>();
  for (const Json& each : *keys)
    if (auto key = read_key(each)) impl->keys.push_back(*std::move(key));
  return KeySet(std::move(impl));
}

std::size_t KeySet::size() const { return impl_->keys.size(); }

Result<std::string> KeySet::verified_payload(const std::string& token) const {
  const SignatureHandle signature = token.size() <= kTokenMax ? read_signature(token) : nullptr;
  if (!signature) return Error{Code::denied, "the ID token has no signature that can be read"};
  const std::string algorithm = header_text(signature.get(), CJOSE_HDR_ALG);
  if (algorithm != CJOSE_HDR_ALG_RS256 && algorithm != CJOSE_HDR_ALG_ES256)
    return Error{Code::denied, "the ID token is signed by another algorithm than RS256 or ES256"};
  if (has_critical_extension(signature.get()))
    return Error{Code::denied, "the ID token needs an extension that is not known"};
  const std::string id = header_text(signature.get(), CJOSE_HDR_KID);
  bool found = false;
  for (const PublicKey& key : impl_->keys) {
    if (key.algorithm != algorithm || (!id.empty() && key.id != id)) continue;
    found = true;
    if (auto payload = payload_signed_by(key, token)) return *std::move(payload);
  }
  if (!found)
    return Error{Code::not_found,
                 "the issuer has no key that the ID token names for its signature"};
  return Error{Code::denied, "the ID token was not signed by the issuer's key: it is forged"};
}

}  // namespace lockstep::identity
