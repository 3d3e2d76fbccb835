// HttpClient: blocking HTTP/1.1 calls to one server, each bounded by a deadline. One thread at a
// time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"
#include "net/http/http.h"
#include "net/http/upgrade.h"
#include "net/http/url.h"
#include "net/tls/tls.h"

namespace lockstep::net {

struct HttpCall {
  std::string method = "GET";
  std::string target = "/";  // encoded: see percent_encode
  Headers headers{};         // besides Host and Content-Length
  std::string body{};
  // Makes the body after the handshake, instead of `body`.
  std::function<std::string()> make_body{};
  // The call is idempotent. GET, HEAD, PUT and DELETE always are.
  bool repeatable = false;
};

// A call made first on every new connection. The caller's request is sent only if `verify` accepts
// the answer: so a server proves its identity before it receives a secret.
struct ConnectionHandshake {
  std::function<HttpCall()> call;
  std::function<Result<void>(const HttpResponse& answer)> verify;
};

class HttpClient {
 public:
  // `trust` is for an https server; its fingerprint may also be in the url.
  explicit HttpClient(Url server, Bytes answer_max = 64_MiB,
                      std::optional<ConnectionHandshake> greeting = std::nullopt,
                      TlsTrust trust = {});
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // Any answer of the server, 500 too, is a response. The connection is kept for the next call. If
  // a kept connection ends before the answer's first byte, a repeatable call is made again, once.
  // Errors: unavailable (no server listens, it is not trusted, the connection broke), timeout (the
  // deadline), corrupt (the answer is not HTTP), invalid (the call cannot be sent), or the error of
  // the connection's handshake. The deadline does not bound the look-up of a host's name, which has
  // the system's own bounds.
  Result<HttpResponse> call(const HttpCall& call, const Deadline& deadline);
  // After a call with upgrade_headers() that was answered 101, and once. This client can only be
  // destroyed then.
  UpgradedConnection take_connection();
  // PEM of the authority that a fingerprint names, after a call over TLS. Other programs trust a
  // server by it. Empty: the fingerprint is the server's own, that of no root, or not given.
  std::string server_authority() const;
  // Some bytes of the last call were sent, so that the server may have acted on it.
  bool was_sent() const;
  // Called about five times a second while a call waits, with the time since it began.
  void on_waiting(std::function<void(Duration waited)> callback);

 private:
  struct Impl;
  class Upgraded;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::net
