#include "platform/api/error.h"

#include "base/format.h"
#include "text/convert.h"

namespace lockstep::api {

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

int status_of(Code code) {
  switch (code) {
    case Code::invalid:
      return 400;
    case Code::denied:  // of a caller that is known; the gate answers 401 to others
      return 403;
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
  return dump_json(to_json(ErrorAnswer{{error.code, error.message}}));
}

Error error_of(int status, std::string_view body) {
  auto json = parse_json(body);
  auto answer = json ? from_json<ErrorAnswer>(*json, UnknownFields::ignore)
                     : Result<ErrorAnswer>(json.error());
  if (answer) return {answer->error.code, std::move(answer->error.message)};
  return {code_of(status), format("the daemon answered {}", status)};
}

}  // namespace lockstep::api
