#include "platform/api/error.h"

#include <array>

#include "text/json.h"

namespace lockstep::api {
namespace {

constexpr std::array kCodes = {Code::invalid,   Code::not_found,   Code::already_exists,
                               Code::denied,    Code::unavailable, Code::timeout,
                               Code::peer_lost, Code::corrupt,     Code::exhausted,
                               Code::cancelled, Code::internal};

Code code_named(std::string_view name) {
  for (Code code : kCodes)
    if (text(code) == name) return code;
  return Code::internal;
}

// For answers that are not ours, such as those of a proxy.
Code code_of(int status) {
  switch (status) {
    case 401:
    case 403:
      return Code::denied;
    case 404:
      return Code::not_found;
    case 408:
    case 504:
      return Code::timeout;
    case 429:
    case 502:
    case 503:
      return Code::unavailable;
    default:
      return status < 500 ? Code::invalid : Code::internal;
  }
}

}  // namespace

int status_of(Code code) {
  switch (code) {
    case Code::invalid:
      return 400;
    case Code::denied:
      return 401;
    case Code::not_found:
      return 404;
    case Code::already_exists:
      return 409;
    case Code::exhausted:
      return 507;
    case Code::unavailable:
    case Code::timeout:
      return 503;
    default:
      return 500;
  }
}

std::string error_body(const Error& error) {
  return dump_json({{"error", {{"code", text(error.code)}, {"message", error.message}}}});
}

Error error_of(int status, std::string_view body) {
  auto json = parse_json(body);
  if (json && json->is_object() && json->contains("error") && (*json)["error"].is_object()) {
    const Json& error = (*json)["error"];
    if (error.contains("code") && error["code"].is_string() && error.contains("message") &&
        error["message"].is_string())
      return {code_named(error["code"].get<std::string>()), error["message"].get<std::string>()};
  }
  return {code_of(status), format("the daemon answered {}", status)};
}

}  // namespace lockstep::api
