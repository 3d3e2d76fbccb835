#include "net/tls/certificate.h"

#include <chrono>

#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/check.h"
#include "base/format.h"
#include "net/detail/openssl_types.h"
#include "net/http/url.h"

namespace lockstep::net {

using detail::Owned;
using detail::pem_of;

namespace {

constexpr int kSerialBits = 127;
constexpr long kVersion3 = 2;

// Making an own certificate fails only without memory, or with a mistake of ours.
void check_done(int result) {
  LS_CHECK(result > 0, "making a certificate: {}", detail::take_openssl_error());
}

bool is_address(const std::string& name) {
  in6_addr ignored{};
  return ::inet_pton(AF_INET, name.c_str(), &ignored) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), &ignored) == 1;
}

// In OpenSSL's notation, in which a name with another character could mean several.
Result<std::string> alternative_names(const std::vector<std::string>& names) {
  std::vector<std::string> words;
  for (const std::string& name : names) {
    const bool address = is_address(name);
    const auto host = host_of(name);
    if (!address && (!host || *host != name))
      return Error{Code::invalid, format("'{}' is neither a host name nor an address", name)};
    words.push_back(format("{}:{}", address ? "IP" : "DNS", name));
  }
  return joined(words, ",");
}

// A random number, so that no authority issues one twice.
void set_serial(X509* certificate) {
  BIGNUM* number = BN_new();
  check_done(BN_rand(number, kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY));
  LS_CHECK(BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr);
  BN_free(number);
}

void set_validity(X509* certificate, const CertificateTerms& terms) {
  const auto seconds = [](Time time) { return std::chrono::system_clock::to_time_t(time); };
  LS_CHECK(ASN1_TIME_set(X509_getm_notBefore(certificate), seconds(terms.begin)) != nullptr);
  LS_CHECK(ASN1_TIME_set(X509_getm_notAfter(certificate), seconds(terms.end)) != nullptr);
}

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  LS_CHECK(extension != nullptr, "'{}': {}", value, detail::take_openssl_error());
  check_done(X509_add_ext(certificate, extension, -1));
  X509_EXTENSION_free(extension);
}

// All but the extensions and the signature.
Owned<X509> blank_certificate(EVP_PKEY* key, const CertificateTerms& terms) {
  Owned<X509> certificate(X509_new());
  check_done(X509_set_version(certificate.get(), kVersion3));
  set_serial(certificate.get());
  set_validity(certificate.get(), terms);
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  check_done(X509_NAME_add_entry_by_txt(
      subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(terms.subject.c_str()),
      -1, -1, 0));
  check_done(X509_set_pubkey(certificate.get(), key));
  return certificate;
}

std::string pem_of_key(EVP_PKEY* key) {
  const Owned<BIO> writer(BIO_new(BIO_s_mem()));
  check_done(PEM_write_bio_PrivateKey(writer.get(), key, nullptr, nullptr, 0, nullptr, nullptr));
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(writer.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

Owned<EVP_PKEY> new_key() {
  Owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  LS_CHECK(key != nullptr, "making a key: {}", detail::take_openssl_error());
  return key;
}

}  // namespace

Result<std::vector<CertificateInfo>> read_certificates(std::string_view pem) {
  std::vector<CertificateInfo> all;
  for (const auto& one : TRY(detail::certificates_of_pem(pem)))
    all.push_back({.fingerprint = detail::fingerprint_of(one.get()),
                   .names = detail::names_of(one.get()),
                   .begin = detail::time_of(X509_get0_notBefore(one.get())),
                   .end = detail::time_of(X509_get0_notAfter(one.get()))});
  return all;
}

TlsIdentity make_authority(const CertificateTerms& terms) {
  const Owned<EVP_PKEY> key = new_key();
  const Owned<X509> own = blank_certificate(key.get(), terms);
  check_done(X509_set_issuer_name(own.get(), X509_get_subject_name(own.get())));
  add_extension(own.get(), own.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(own.get(), own.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(own.get(), own.get(), NID_subject_key_identifier, "hash");
  check_done(X509_sign(own.get(), key.get(), EVP_sha256()));
  return {.certificates = pem_of(own.get()), .key = pem_of_key(key.get())};
}

Result<TlsIdentity> issue_certificate(const TlsIdentity& authority, const CertificateTerms& terms) {
  const std::string names = TRY(alternative_names(terms.names));
  const auto issuers = TRY(detail::certificates_of_pem(authority.certificates));
  const auto issuer_key = TRY(detail::key_of_pem(authority.key));
  X509* issuer = issuers.front().get();
  const Owned<EVP_PKEY> key = new_key();
  const Owned<X509> made = blank_certificate(key.get(), terms);
  check_done(X509_set_issuer_name(made.get(), X509_get_subject_name(issuer)));
  add_extension(made.get(), issuer, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(made.get(), issuer, NID_key_usage, "critical,digitalSignature");
  add_extension(made.get(), issuer, NID_ext_key_usage, "serverAuth");
  add_extension(made.get(), issuer, NID_subject_key_identifier, "hash");
  add_extension(made.get(), issuer, NID_authority_key_identifier, "keyid:always");
  add_extension(made.get(), issuer, NID_subject_alt_name, names);
  if (X509_sign(made.get(), issuer_key.get(), EVP_sha256()) <= 0)
    return Error{Code::invalid,
                 "the authority cannot sign a certificate: " + detail::take_openssl_error()};
  return TlsIdentity{.certificates = pem_of(made.get()) + authority.certificates,
                     .key = pem_of_key(key.get())};
}

Result<void> check_identity(const TlsIdentity& identity) {
  const auto certificates = TRY(detail::certificates_of_pem(identity.certificates));
  const auto key = TRY(detail::key_of_pem(identity.key));
  if (X509_check_private_key(certificates.front().get(), key.get()) == 1) return {};
  (void)detail::take_openssl_error();
  return Error{Code::invalid,
               "the key is not that of the first certificate; the server's own comes first"};
}

}  // namespace lockstep::net
