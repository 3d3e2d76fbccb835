// For tests: certificates, and a caller over TLS that does what our own client never does.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "base/clock.h"
#include "net/detail/peer_for_test.h"
#include "net/tls/certificate.h"

namespace lockstep::net {

struct Validity {
  Time begin = SystemClock().now() - std::chrono::hours(1);
  Time end = SystemClock().now() + std::chrono::hours(1);
};

inline TlsIdentity authority_for_test(Validity valid = {}) {
  return make_authority({.subject = "an authority", .begin = valid.begin, .end = valid.end});
}

inline TlsIdentity identity_for_test(const TlsIdentity& authority,
                                     std::vector<std::string> names = {"127.0.0.1", "localhost"},
                                     Validity valid = {}) {
  return issue_certificate(authority, {.subject = "a server",
                                       .names = std::move(names),
                                       .begin = valid.begin,
                                       .end = valid.end})
      .value();
}

// That of the first certificate.
inline std::string fingerprint_for_test(const TlsIdentity& identity) {
  return read_certificates(identity.certificates)->front().fingerprint;
}

// Trusts every server. Waits end after ten seconds, as if the other side had closed.
class TlsCaller {
 public:
  explicit TlsCaller(int port, int version_max = TLS1_3_VERSION)
      : socket_(port),
        context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free),
        ssl_(SSL_new(context_.get()), SSL_free) {
    // Also old versions, which the system's own settings may refuse.
    SSL_set_security_level(ssl_.get(), 0);
    SSL_set_min_proto_version(ssl_.get(), TLS1_VERSION);
    SSL_set_max_proto_version(ssl_.get(), version_max);
    SSL_set_fd(ssl_.get(), socket_.fd());
    connected_ = SSL_connect(ssl_.get()) == 1;
  }

  bool is_connected() const { return connected_; }
  std::string version() const { return SSL_get_version(ssl_.get()); }
  void send(std::string_view bytes) {
    EXPECT_GT(SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())), 0);
  }
  // Bytes up to and including `end`; fewer if the connection ends before.
  std::string read_until(std::string_view end) {
    std::string bytes;
    char byte = 0;
    while (!bytes.ends_with(end) && SSL_read(ssl_.get(), &byte, 1) == 1) bytes += byte;
    return bytes;
  }
  // True if the server accepts it.
  bool renegotiate() {
    char byte = 0;
    return SSL_renegotiate(ssl_.get()) == 1 && SSL_do_handshake(ssl_.get()) == 1 &&
           SSL_read(ssl_.get(), &byte, 1) != 0;
  }
  // Tells the server that nothing more comes, and keeps the connection.
  void close_side() { SSL_shutdown(ssl_.get()); }
  // The server has told that nothing more comes.
  bool was_closed_properly() const {
    return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
  }

 private:
  RawCaller socket_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  bool connected_ = false;
};

}  // namespace lockstep::net
