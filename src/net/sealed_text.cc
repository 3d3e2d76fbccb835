#include "net/sealed_text.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <openssl/evp.h>
#include <sys/random.h>

#include "base/check.h"
#include "net/base64.h"

namespace lockstep::net {
namespace {

// A sealed text: nonce, tag, ciphertext.
constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kTagBytes = 16;
constexpr std::size_t kHeadBytes = kNonceBytes + kTagBytes;

struct CipherDeleter {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, CipherDeleter>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// With the secret, the nonce and the context, which is authenticated and not part of the output.
Cipher begin(const Secret& secret, const unsigned char* nonce, std::string_view context,
             bool encrypts) {
  Cipher cipher(EVP_CIPHER_CTX_new());
  int length = 0;
  LS_CHECK(EVP_CipherInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes_of(secret.bytes()),
                             nonce, encrypts ? 1 : 0) == 1);
  LS_CHECK(EVP_CipherUpdate(cipher.get(), nullptr, &length, bytes_of(context),
                            static_cast<int>(context.size())) == 1);
  return cipher;
}

}  // namespace

std::string seal(const Secret& secret, std::string_view context, std::string_view text) {
  std::vector<unsigned char> sealed(kHeadBytes + text.size());
  LS_CHECK(::getentropy(sealed.data(), kNonceBytes) == 0, "the system's random generator failed");
  const Cipher cipher = begin(secret, sealed.data(), context, /*encrypts=*/true);
  int length = 0;
  LS_CHECK(EVP_CipherUpdate(cipher.get(), sealed.data() + kHeadBytes, &length, bytes_of(text),
                            static_cast<int>(text.size())) == 1);
  LS_CHECK(EVP_CipherFinal_ex(cipher.get(), sealed.data() + kHeadBytes + length, &length) == 1);
  LS_CHECK(EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                               sealed.data() + kNonceBytes) == 1);
  return to_base64(std::as_bytes(std::span(sealed)));
}

Result<std::string> unseal(const Secret& secret, std::string_view context,
                           std::string_view sealed) {
  const Error damaged{Code::corrupt, "a sealed text does not open with this secret"};
  auto bytes = from_base64(sealed);
  if (!bytes || bytes->size() < kHeadBytes) return damaged;
  auto* const data = reinterpret_cast<unsigned char*>(bytes->data());
  const Cipher cipher = begin(secret, data, context, /*encrypts=*/false);
  std::string text(bytes->size() - kHeadBytes, '\0');
  auto* const out = reinterpret_cast<unsigned char*>(text.data());
  int length = 0;
  if (EVP_CipherUpdate(cipher.get(), out, &length, data + kHeadBytes,
                       static_cast<int>(text.size())) != 1 ||
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, data + kNonceBytes) != 1 ||
      EVP_CipherFinal_ex(cipher.get(), out + length, &length) != 1)
    return damaged;
  return text;
}

}  // namespace lockstep::net
