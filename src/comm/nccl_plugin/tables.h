// The functions of the tables. Each catches every exception, logs the error of a call, and returns
// NCCL's status for it.
#pragma once

#include <exception>
#include <new>

#include "comm/nccl_plugin/interface.h"
#include "comm/nccl_plugin/log.h"
#include "comm/nccl_plugin/plugin.h"

namespace lockstep::comm::nccl {

Status status_of(const Error& error);

// call() returns Result<void>.
template <class Call>
Status guarded(const char* name, Call call) noexcept {
  try {
    const Result<void> done = call();
    if (done) return Status::success;
    log_warning(format("{}: {}", name, done.error().message));
    return status_of(done.error());
  } catch (const std::bad_alloc&) {
    return Status::system_error;
  } catch (const std::exception&) {
    return Status::internal_error;
  }
}

}  // namespace lockstep::comm::nccl
