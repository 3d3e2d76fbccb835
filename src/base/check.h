// LS_CHECK(condition, details...): an assertion that stays on in release. A failure is a bug of
// ours; input never causes one. The optional details are a format string and its arguments.
#pragma once

#include <string_view>

#include "base/format.h"

namespace lockstep {

// Prints condition and details with the source location, then aborts.
[[noreturn]] void check_failed(std::string_view condition, std::string_view details,
                               const char* file = __builtin_FILE(), int line = __builtin_LINE());

inline std::string_view check_details() { return {}; }
template <class... Args>
std::string check_details(fmt::format_string<Args...> pattern, Args&&... args) {
  return fmt::format(pattern, std::forward<Args>(args)...);
}

#define LS_CHECK(condition, ...)                                                             \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::lockstep::check_failed(#condition, ::lockstep::check_details(__VA_ARGS__), __FILE__, \
                               __LINE__);                                                    \
  } while (false)

}  // namespace lockstep
