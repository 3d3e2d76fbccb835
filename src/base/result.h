// The product's own forms of Result (include/lockstep/result.h): TRY, and errors of the operating
// system. Results are for failures of the environment (files, networks, users); our own bugs are
// LS_CHECK.
#pragma once

#include <string>
#include <string_view>

#include "base/check.h"
#include "lockstep/result.h"

namespace lockstep {

// "No such file or directory" for ENOENT. Thread-safe.
std::string errno_text(int errno_value);

// An error of the operating system: "opening /x: No such file or directory". Chooses the code.
Error os_error(std::string_view what, int errno_value);

// TRY(expression): the value, or return its error from this function. Not around co_await, on which
// g++ 12 crashes: await into a variable first, then TRY(std::move(variable)).
#define TRY(...) LOCKSTEP_TRY(__VA_ARGS__)

}  // namespace lockstep
