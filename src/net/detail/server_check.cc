#include "net/detail/server_check.h"

#include <utility>

#include <boost/asio/ip/address.hpp>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "base/format.h"
#include "net/detail/openssl_types.h"
#include "net/http/http.h"

namespace lockstep::net::detail {
namespace {

bool is_address(const std::string& host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(host, error);
  return !error;
}

// Empty if it is valid now.
std::string check_time(const X509* certificate) {
  const auto* const begin = X509_get0_notBefore(certificate);
  const auto* const end = X509_get0_notAfter(certificate);
  if (X509_cmp_current_time(end) < 0)
    return format("its certificate expired on {}; have the server renew it, and compare the clocks",
                  lockstep::text(time_of(end)));
  if (X509_cmp_current_time(begin) > 0)
    return format("its certificate is valid from {} on; compare the clocks of both machines",
                  lockstep::text(time_of(begin)));
  return "";
}

std::string name_refusal(X509* certificate, const std::string& host) {
  const auto names = names_of(certificate);
  return format("its certificate is for {}, not for {}; call it by a name that it has",
                names.empty() ? "no name" : joined(names, ", "), host);
}

// A sentence on OpenSSL's verdict.
std::string refusal_of(X509_STORE_CTX* chain, const std::string& host) {
  X509* const own = X509_STORE_CTX_get0_cert(chain);
  X509* const bad = X509_STORE_CTX_get_current_cert(chain);
  const int error = X509_STORE_CTX_get_error(chain);
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return check_time(bad == nullptr ? own : bad);
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return name_refusal(own, host);
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return "no authority that is trusted here issued its certificate; give the certificate's "
             "fingerprint, or the file of its authority";
    default:
      return format("its certificate is not valid: {}", X509_verify_cert_error_string(error));
  }
}

// The certificates that the server presented, its own first or not.
struct Presented {
  X509* pinned = nullptr;
  std::string fingerprint_of_last;
};

Presented find_pinned(X509_STORE_CTX* chain, const std::string& fingerprint) {
  Presented found;
  STACK_OF(X509)* const all = X509_STORE_CTX_get0_untrusted(chain);
  for (int i = 0; i < sk_X509_num(all); ++i) {
    X509* const one = sk_X509_value(all, i);
    found.fingerprint_of_last = fingerprint_of(one);
    if (equal_ignoring_case(found.fingerprint_of_last, fingerprint)) found.pinned = one;
  }
  return found;
}

}  // namespace

ServerCheck::ServerCheck(TlsTrust trust, std::string host)
    : trust_(std::move(trust)), host_(std::move(host)) {}

Result<void> ServerCheck::install(SSL_CTX* context) {
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(context, verify_callback, this);
  if (!trust_.fingerprint.empty()) return {};
  if (trust_.authorities.empty()) {
    SSL_CTX_set_default_verify_paths(context);
    return {};
  }
  auto authorities = certificates_of_pem(trust_.authorities);
  if (!authorities) return std::move(authorities).error().with_context("the authorities");
  for (const auto& one : *authorities)
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), one.get());
  return {};
}

void ServerCheck::prepare(SSL* connection) const {
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(connection);
  X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (is_address(host_)) {
    X509_VERIFY_PARAM_set1_ip_asc(wanted, host_.c_str());
    return;
  }
  X509_VERIFY_PARAM_set1_host(wanted, host_.c_str(), host_.size());
  SSL_set_tlsext_host_name(connection, host_.c_str());
}

int ServerCheck::verify_callback(X509_STORE_CTX* chain, void* self) {
  return static_cast<ServerCheck*>(self)->verify(chain) ? 1 : 0;
}

bool ServerCheck::verify(X509_STORE_CTX* chain) {
  refusal_.clear();
  authority_.clear();
  const bool good = trust_.fingerprint.empty() ? run_openssl(chain) : verify_pinned(chain);
  if (!good && X509_STORE_CTX_get_error(chain) == X509_V_OK)
    X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
  return good;
}

bool ServerCheck::verify_pinned(X509_STORE_CTX* chain) {
  const Presented found = find_pinned(chain, trust_.fingerprint);
  if (found.pinned == nullptr) {
    refusal_ = format(
        "its certificate has another fingerprint than the one that is trusted (it has sha256:{}, "
        "not sha256:{}): either another program answers there, or the certificate was replaced; "
        "trust the new fingerprint only if the server's operator confirms it",
        found.fingerprint_of_last, trust_.fingerprint);
    return false;
  }
  if (found.pinned == X509_STORE_CTX_get0_cert(chain)) {
    refusal_ = check_time(found.pinned);
    return refusal_.empty();
  }
  STACK_OF(X509)* const trusted = sk_X509_new_null();
  sk_X509_push(trusted, found.pinned);
  X509_STORE_CTX_set0_trusted_stack(chain, trusted);
  X509_STORE_CTX_set_flags(chain, X509_V_FLAG_PARTIAL_CHAIN);
  const bool good = run_openssl(chain);
  X509_STORE_CTX_set0_trusted_stack(chain, nullptr);
  sk_X509_free(trusted);
  if (good && X509_self_signed(found.pinned, 1) == 1) authority_ = pem_of(found.pinned);
  return good;
}

bool ServerCheck::run_openssl(X509_STORE_CTX* chain) {
  if (X509_verify_cert(chain) == 1) return true;
  refusal_ = refusal_of(chain, host_);
  return false;
}

}  // namespace lockstep::net::detail
