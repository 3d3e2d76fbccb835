// OpenSSL's objects with owners, and its errors as text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::net::detail {

struct OpensslDelete {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
};
template <class T>
using Owned = std::unique_ptr<T, OpensslDelete>;

// The first error that OpenSSL noted on this thread since the last call; forgets all of them.
std::string take_openssl_error();

// The certificates of a PEM text, in its order; at least one.
Result<std::vector<Owned<X509>>> certificates_of_pem(std::string_view pem);
// Never asks for the passphrase of an encrypted key: that is an error.
Result<Owned<EVP_PKEY>> key_of_pem(std::string_view pem);

std::string pem_of(const X509* certificate);
// SHA-256 of a certificate, 64 hex digits.
std::string fingerprint_of(const X509* certificate);
// The host names and addresses that a certificate is for.
std::vector<std::string> names_of(const X509* certificate);
Time time_of(const ASN1_TIME* time);

}  // namespace lockstep::net::detail
