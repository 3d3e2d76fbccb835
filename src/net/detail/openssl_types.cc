#include "net/detail/openssl_types.h"

#include <array>
#include <chrono>
#include <ctime>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/format.h"
#include "net/crypto.h"

namespace lockstep::net::detail {
namespace {

Owned<BIO> reader_of(std::string_view text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

int refuse_passphrase(char*, int, int, void*) { return -1; }

std::string address_text(const ASN1_OCTET_STRING& bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = bytes.length == 4 ? AF_INET : AF_INET6;
  if (bytes.length != 4 && bytes.length != 16) return "";
  return ::inet_ntop(family, bytes.data, text.data(), text.size()) == nullptr ? "" : text.data();
}

std::string name_text(const GENERAL_NAME& name) {
  if (name.type == GEN_IPADD) return address_text(*name.d.iPAddress);
  if (name.type != GEN_DNS) return "";
  const ASN1_IA5STRING* word = name.d.dNSName;
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(word)),
          static_cast<std::size_t>(ASN1_STRING_length(word))};
}

}  // namespace

std::string take_openssl_error() {
  const unsigned long first = ERR_get_error();
  ERR_clear_error();
  const char* reason = first == 0 ? nullptr : ERR_reason_error_string(first);
  return reason == nullptr ? "unknown error" : reason;
}

Result<std::vector<Owned<X509>>> certificates_of_pem(std::string_view pem) {
  const Owned<BIO> reader = reader_of(pem);
  std::vector<Owned<X509>> all;
  while (X509* one = PEM_read_bio_X509(reader.get(), nullptr, refuse_passphrase, nullptr))
    all.emplace_back(one);
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string error = take_openssl_error();
  if (!ended) return Error{Code::invalid, "a certificate cannot be read: " + error};
  if (all.empty()) return Error{Code::invalid, "there is no certificate in PEM form"};
  return all;
}

Result<Owned<EVP_PKEY>> key_of_pem(std::string_view pem) {
  const Owned<BIO> reader = reader_of(pem);
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(reader.get(), nullptr, refuse_passphrase, nullptr));
  if (key) return key;
  return Error{Code::invalid,
               format("the private key cannot be read, or is encrypted: {}", take_openssl_error())};
}

std::string pem_of(const X509* certificate) {
  const Owned<BIO> writer(BIO_new(BIO_s_mem()));
  LS_CHECK(PEM_write_bio_X509(writer.get(), certificate) == 1);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(writer.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

std::string fingerprint_of(const X509* certificate) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(certificate, &bytes);
  LS_CHECK(size > 0);
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(
      bytes, [](unsigned char* allocated) { OPENSSL_free(allocated); });
  return sha256_hex({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)});
}

std::vector<std::string> names_of(const X509* certificate) {
  std::vector<std::string> names;
  auto* list = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; list != nullptr && i < sk_GENERAL_NAME_num(list); ++i)
    if (std::string name = name_text(*sk_GENERAL_NAME_value(list, i)); !name.empty())
      names.push_back(std::move(name));
  GENERAL_NAMES_free(list);
  return names;
}

Time time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return std::chrono::floor<Duration>(std::chrono::system_clock::from_time_t(::timegm(&parts)));
}

}  // namespace lockstep::net::detail
