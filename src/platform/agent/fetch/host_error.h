// Failures of this host, which another host may not have.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace lockstep::agent {

template <class T>
Result<T> of_host(Result<T> done) {
  if (done) return done;
  return Error{Code::internal, done.error().message};
}

inline Error host_error(const std::string& what, int errno_value) {
  return {Code::internal, os_error(what, errno_value).message};
}

}  // namespace lockstep::agent
