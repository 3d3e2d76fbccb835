// Errors in the API: {"error": {"code": "not_found", "message": "..."}} with an HTTP status.
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

}  // namespace lockstep

namespace lockstep::api {

struct ErrorView {
  Code code = Code::internal;
  std::string message;

  static constexpr auto fields() {
    return record<ErrorView>(
        required(field("code", &ErrorView::code, "what kind of failure, for programs")),
        required(field("message", &ErrorView::message, "one line for people")));
  }
};

// The body of every answer with status 400 or above.
struct ErrorAnswer {
  ErrorView error;

  static constexpr auto fields() {
    return record<ErrorAnswer>(required(field("error", &ErrorAnswer::error, "what went wrong")));
  }
};

int status_of(Code code);
// Code for a status alone: a refusal by HTTP, or an answer of another program, such as a proxy.
Code code_of(int status);
std::string error_body(const Error& error);
// The error in an answer with status 400 or above; its body may be anything.
Error error_of(int status, std::string_view body);

}  // namespace lockstep::api
