// For tests of the HTTP server: a handler that echoes requests, a request, and bounded waits.
#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "base/clock.h"
#include "net/http/http_server.h"

namespace lockstep::net {

inline constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

inline Deadline soon() { return Deadline::after(std::chrono::seconds(10)); }

// Answers with the request that it received: "POST /path body".
inline void echo(HttpRequest request, Responder responder) {
  responder.send({.body = request.method + " " + request.target + " " + request.body});
}

// Checks repeatedly until it holds or ten seconds are over.
inline bool eventually(const std::function<bool()>& holds) {
  for (const auto bound = soon(); !bound.passed();)
    if (holds()) return true;
  return false;
}

}  // namespace lockstep::net
