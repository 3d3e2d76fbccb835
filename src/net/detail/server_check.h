// ServerCheck: how a client decides whether a server's certificate is good, and what it says if it
// is not.
//
// With a fingerprint, the server must present a certificate that has it. If that is its own, the
// certificate alone identifies the server: its names do not matter. If it is another one, that is
// the only authority. In all cases the certificate must be valid now.
#pragma once

#include <string>
#include <string_view>

#include <openssl/ssl.h>

#include "base/result.h"
#include "net/tls/tls.h"

namespace lockstep::net::detail {

class ServerCheck {
 public:
  // `host`: the name or address by which the client calls.
  ServerCheck(TlsTrust trust, std::string host);
  ServerCheck(const ServerCheck&) = delete;
  ServerCheck& operator=(const ServerCheck&) = delete;

  // For all handshakes of the context, which it must outlive. Loads the authorities. invalid: they
  // cannot be read.
  Result<void> install(SSL_CTX* context);
  // Sends the name, and has it compared with those of the certificate.
  void prepare(SSL* connection) const;
  // Why the last handshake's certificate was refused; empty: it was not.
  const std::string& refusal() const { return refusal_; }
  // PEM of the authority with the fingerprint, which issued the last handshake's certificate.
  // Empty: the fingerprint is the server's own, or that of no root.
  const std::string& authority() const { return authority_; }

 private:
  static int verify_callback(X509_STORE_CTX* chain, void* self);
  bool verify(X509_STORE_CTX* chain);
  bool verify_pinned(X509_STORE_CTX* chain);
  bool run_openssl(X509_STORE_CTX* chain);

  TlsTrust trust_;
  std::string host_;
  std::string refusal_;
  std::string authority_;
};

}  // namespace lockstep::net::detail
