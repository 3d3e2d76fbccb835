// format("{} of {}", a, b): text from values. The only file that includes {fmt}.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep {

// An object and no function: for arguments of std or fmt a call would find their functions of this
// name, too, and be ambiguous.
struct Format {
  template <class... Args>
  std::string operator()(fmt::format_string<Args...> pattern, Args&&... args) const {
    return fmt::format(pattern, std::forward<Args>(args)...);
  }
};
inline constexpr Format format;

// "a, b, c".
template <class Range>
std::string joined(const Range& items, std::string_view separator) {
  return fmt::format("{}", fmt::join(items, separator));
}

}  // namespace lockstep
