// WaitFor: what a member of a group waits for another one to do.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

enum class WaitFor : std::uint8_t { call, take_part, take_data, send_data };

// "to send data"; it follows "waits for rank 3".
constexpr std::string_view text(WaitFor what) {
  switch (what) {
    case WaitFor::call:
      return "to call it too";
    case WaitFor::take_part:
      return "to take its part";
    case WaitFor::take_data:
      return "to take data";
    case WaitFor::send_data:
      return "to send data";
  }
  return "";
}

}  // namespace lockstep
