// format("{} of {}", a, b): text from values. The one place that includes {fmt}.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep {

template <class... Args>
std::string format(fmt::format_string<Args...> pattern, Args&&... args) {
  return fmt::format(pattern, std::forward<Args>(args)...);
}

}  // namespace lockstep
