// Errors as they travel: {"error": {"code": "not_found", "message": "..."}} under an HTTP status.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::api {

int status_of(Code code);
std::string error_body(const Error& error);
// The error that an answer of status 400 and over carries; also when its body is something else.
Error error_of(int status, std::string_view body);

}  // namespace lockstep::api
