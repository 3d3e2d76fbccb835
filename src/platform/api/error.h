// Errors as they travel: {"error": {"code": "not_found", "message": "..."}} under an HTTP status.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/record.h"

namespace lockstep {

constexpr auto enum_names(Code) {
  return names<Code>({{Code::invalid, "invalid"},
                      {Code::not_found, "not_found"},
                      {Code::already_exists, "already_exists"},
                      {Code::denied, "denied"},
                      {Code::unavailable, "unavailable"},
                      {Code::timeout, "timeout"},
                      {Code::peer_lost, "peer_lost"},
                      {Code::corrupt, "corrupt"},
                      {Code::exhausted, "exhausted"},
                      {Code::cancelled, "cancelled"},
                      {Code::internal, "internal"}});
}

namespace api {

struct ErrorView {
  Code code = Code::internal;
  std::string message;

  static constexpr auto fields() {
    return record<ErrorView>(
        required(field("code", &ErrorView::code, "what kind of failure, for programs")),
        required(field("message", &ErrorView::message, "one line for people")));
  }
};

// The body of every answer of status 400 and over.
struct ErrorAnswer {
  ErrorView error;

  static constexpr auto fields() {
    return record<ErrorAnswer>(required(field("error", &ErrorAnswer::error, "what went wrong")));
  }
};

int status_of(Code code);
// Of a status alone: what HTTP refuses, or an answer that is not ours, such as that of a proxy.
Code code_of(int status);
std::string error_body(const Error& error);
// The error that an answer of status 400 and over carries; also when its body is something else.
Error error_of(int status, std::string_view body);

}  // namespace api
}  // namespace lockstep
