// Frames of a stream: one byte of kind, three bytes of length (big endian), the payload.
// docs/design/streams.md has their meaning.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::net {

enum class FrameKind : std::uint8_t {
  data = 0,
  end = 1,    // no payload; the sender sends no more data
  reset = 2,  // text; the sender's local connection failed; the last frame
  ping = 3,   // no payload
};

inline constexpr std::size_t kFrameHead = 4;
inline constexpr std::size_t kFrameDataMax = 64 << 10;
inline constexpr std::size_t kFrameResetMax = 1024;

struct FrameHead {
  FrameKind kind = FrameKind::data;
  std::size_t size = 0;  // of the payload
};

constexpr std::array<unsigned char, kFrameHead> to_bytes(const FrameHead& head) {
  return {static_cast<unsigned char>(head.kind), static_cast<unsigned char>(head.size >> 16),
          static_cast<unsigned char>(head.size >> 8), static_cast<unsigned char>(head.size)};
}

constexpr FrameHead frame_head_of(const unsigned char* bytes) {
  return {static_cast<FrameKind>(bytes[0]), static_cast<std::size_t>(bytes[1]) << 16 |
                                                static_cast<std::size_t>(bytes[2]) << 8 |
                                                static_cast<std::size_t>(bytes[3])};
}

// False: no sender of this version sends it.
constexpr bool is_valid(const FrameHead& head) {
  switch (head.kind) {
    case FrameKind::data:
      return head.size > 0 && head.size <= kFrameDataMax;
    case FrameKind::reset:
      return head.size <= kFrameResetMax;
    case FrameKind::end:
    case FrameKind::ping:
      return head.size == 0;
  }
  return false;
}

// A frame that has come, or a part of the data of one.
struct FramePart {
  FrameKind kind = FrameKind::data;
  std::string_view data{};  // of a data frame: in the bytes that were given
  std::string text{};       // of a reset
};

// Reads frames from bytes in pieces of any size.
class FrameReader {
 public:
  // Removes the next part from the front of `bytes`; nothing: all of them are read, or one is not
  // valid.
  std::optional<FramePart> next(std::string_view& bytes) {
    while (!bytes.empty() && is_valid_) {
      if (head_.size() < kFrameHead) {
        head_ += bytes.front();
        bytes.remove_prefix(1);
        if (head_.size() == kFrameHead && !begin_frame()) return {};
      }
      if (head_.size() < kFrameHead) continue;
      const std::string_view part = bytes.substr(0, left_);
      if (frame_.kind == FrameKind::reset) text_ += part;
      bytes.remove_prefix(part.size());
      left_ -= part.size();
      if (left_ == 0) head_.clear();
      if (frame_.kind == FrameKind::data && !part.empty()) return FramePart{.data = part};
      if (frame_.kind != FrameKind::data && left_ == 0)
        return FramePart{.kind = frame_.kind, .text = std::move(text_)};
    }
    return {};
  }
  // False: the sender does not send frames.
  bool is_valid() const { return is_valid_; }

 private:
  bool begin_frame() {
    frame_ = frame_head_of(reinterpret_cast<const unsigned char*>(head_.data()));
    left_ = frame_.size;
    text_.clear();
    return is_valid_ = net::is_valid(frame_);
  }

  std::string head_;  // of the present frame, as far as it has come
  FrameHead frame_;
  std::size_t left_ = 0;  // of its payload
  std::string text_;
  bool is_valid_ = true;
};

}  // namespace lockstep::net
