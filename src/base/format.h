// format("{} of {}", a, b): text from values. The only file that includes {fmt}.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep {

template <class... Args>
std::string format(fmt::format_string<Args...> pattern, Args&&... args) {
  return fmt::format(pattern, std::forward<Args>(args)...);
}

// "a, b, c". fmt::join among the arguments of format() above would make the call ambiguous.
template <class Range>
std::string joined(const Range& items, std::string_view separator) {
  return fmt::format("{}", fmt::join(items, separator));
}

}  // namespace lockstep
