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
#include "net/http.h"
#include "net/url.h"

namespace lockstep {

struct HttpCall {
  std::string method = "GET";
  std::string target = "/";  // encoded: see percent_encode
  Headers headers{};         // besides Host and Content-Length
  std::string body{};
  // Doing it twice is like doing it once. GET, HEAD, PUT and DELETE always are.
  bool repeatable = false;
};

// A call made first on every new connection. What the caller then sends is sent only if `judge`
// finds nothing wrong with the answer: so a server proves who it is before it hears a secret.
struct Greeting {
  std::function<HttpCall()> call;
  std::function<Result<void>(const HttpResponse& answer)> judge;
};

class HttpClient {
 public:
  explicit HttpClient(Url server, Bytes answer_max = 64_MiB,
                      std::optional<Greeting> greeting = std::nullopt);
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // Whatever the server answers, 500 too, is a response. The connection is kept for the next call.
  // A repeatable call that meets a kept connection's end before the answer's first byte is made
  // again, once. Errors: unavailable (nobody listens, the connection broke), timeout (the
  // deadline), corrupt (what came is not HTTP), invalid (the call cannot be sent), or the
  // greeting's own. The deadline
  // holds but for the look-up of a host's name, which has the system's own bounds.
  Result<HttpResponse> call(const HttpCall& call, const Deadline& deadline);
  // Something of the last call was sent, so that the server may have acted on it.
  bool was_sent() const;
  // Called about five times a second while a call waits, with the time since it began.
  void when_waiting(std::function<void(Duration waited)> told);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
