// Frames: length-prefixed messages over a Socket, and the small encoding of fields inside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "net/socket.h"

namespace lockstep::comm {

// The maximum for a handshake or a short exchange.
inline constexpr std::size_t kFrameLimit = 64 * 1024;

// Four bytes of length (big-endian), then the content.
std::string framed(std::string_view content);
Result<void> send_frame(net::Socket& socket, std::string_view content, Deadline deadline);
// `corrupt` when the frame is larger than the limit.
Result<std::string> recv_frame(net::Socket& socket, Deadline deadline,
                               std::size_t limit = kFrameLimit);

// Reads one frame as its bytes arrive, and none of what follows it: descriptors may.
class FrameReader {
 public:
  explicit FrameReader(std::size_t limit) : limit_(limit) {}
  // The frame, once; nullopt while it is incomplete. `corrupt` when it is larger than the limit,
  // `peer_lost` when the other side has closed.
  Result<std::optional<std::string>> read(net::Socket& socket);

 private:
  std::size_t limit_;
  std::string received_;
};

// Removes and returns the first complete frame of `buffer`; nullopt while it is incomplete.
Result<std::optional<std::string>> take_frame(std::string& buffer, std::size_t limit);

// Joins fields of any bytes so that split_fields() can separate them.
std::string join_fields(const std::vector<std::string>& fields);
// `corrupt` when their number is not `count`.
Result<std::vector<std::string>> split_fields(std::string_view joined, std::size_t count);

}  // namespace lockstep::comm
