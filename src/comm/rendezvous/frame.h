// Frames: length-prefixed messages over a Socket, and the small encoding of fields inside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/socket.h"

namespace lockstep {

// What a handshake or a short exchange may take at most.
inline constexpr std::size_t kFrameLimit = 64 * 1024;

// Four bytes of length (big-endian), then the content.
std::string framed(std::string_view content);
Result<void> send_frame(Socket& socket, std::string_view content, Deadline deadline);
// `corrupt` when the frame is larger than the limit.
Result<std::string> recv_frame(Socket& socket, Deadline deadline, std::size_t limit = kFrameLimit);

// The first whole frame at the front of `buffer`, taken off it; nothing while it is not complete.
Result<std::optional<std::string>> take_frame(std::string& buffer, std::size_t limit);

// Fields of any bytes, joined so that they come apart again.
std::string join_fields(const std::vector<std::string>& fields);
// `corrupt` when there are not `count`.
Result<std::vector<std::string>> split_fields(std::string_view joined, std::size_t count);

}  // namespace lockstep
