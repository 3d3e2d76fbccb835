// WaitReason: the event that a member of a group waits for.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::comm {

enum class WaitReason : std::uint8_t { enter_call, reach_barrier, receive_data, send_data };

// "to send data"; it follows "waits for rank 3".
constexpr std::string_view text(WaitReason what) {
  switch (what) {
    case WaitReason::enter_call:
      return "to call it too";
    case WaitReason::reach_barrier:
      return "to take its part";
    case WaitReason::receive_data:
      return "to take data";
    case WaitReason::send_data:
      return "to send data";
  }
  return "";
}

}  // namespace lockstep::comm
