// Stream: one lane of a TcpLink: messages out of slots into a connection, and out of it into slots.
//
// The connection's own flow control bounds what is under way: who has no free slot does not read,
// then the sender's kernel takes no more, and then the sender has no free slot. So no credits
// travel, and a message costs one system call on each side: header and payload lie one after the
// other in the slot, and one readv() takes the rest of a message into its slot and the beginning of
// the next ones into a small *stage*, from which they are copied.
//
// Slots are used from the first on whenever all are empty, so that little data stays in the cache.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "comm/fabric/link.h"
#include "comm/fabric/slot.h"
#include "net/socket.h"

namespace lockstep {

class Stream {
 public:
  // What the slots of both directions take; pages that are never used cost nothing.
  static constexpr std::size_t kMemoryBytes = 2 * kSlots * kSlotSpace;

  // memory: kMemoryBytes of it, page-aligned, which outlive the stream.
  Stream(Socket socket, std::byte* memory) : socket_(std::move(socket)), memory_(memory) {}
  Stream(const Stream&) = delete;  // it points to its own stage
  Stream& operator=(const Stream&) = delete;

  // As in Link.
  std::byte* claim();
  void publish(const Header& header);
  std::optional<Incoming> front() const;
  void release();
  std::uint64_t sent() const { return published_; }
  std::uint64_t arrived() const { return arrived_; }
  // Also what the kernel has, of which the peer's has not yet said that it has come.
  bool has_unsent() const;

  int fd() const { return socket_.fd(); }
  // What epoll, edge-triggered, says of the connection.
  void note(std::uint32_t events);
  // A message may have begun to come: progress() is to look, without a word of epoll. False when
  // one is on its way already, of whose rest epoll will tell.
  bool expect() {
    if (came_bytes_ > 0) return false;
    readable_ = true;
    return true;
  }
  // True when progress() would do something without a further word of epoll.
  bool has_work() const {
    if (!staged_.empty() && has_room()) return true;
    return !over_ && ((unsent_ > 0 && writable_) || (staged_.empty() && readable_));
  }
  // Sends and receives what is possible now. `corrupt` when what comes is no message; that the
  // connection has ended is no error here.
  Result<void> progress();
  // Nothing comes any more; all that came lies in slots.
  bool is_over() const { return over_.has_value() && staged_.empty(); }
  // Why; empty: the peer has closed the connection.
  const std::string& reason() const { return *over_; }

 private:
  static constexpr std::size_t kStageBytes = 8192;

  std::byte* send_slot(std::size_t slot) const;
  std::byte* receive_slot(std::size_t slot) const;
  bool has_room() const { return arrived_ - released_ < kSlots; }
  void send();
  Result<void> receive();
  // Takes messages further with what is staged, as far as there are slots.
  Result<void> unstage();
  Result<void> end_header();
  void end_message();
  void read_more();

  Socket socket_;
  std::byte* const memory_;
  bool readable_ = true, writable_ = true;  // until the kernel says that they are not
  bool ending_ = false;                     // the kernel has said that the end is near
  std::optional<std::string> over_;

  std::uint64_t published_ = 0;
  std::size_t next_send_ = 0;   // the slot to claim
  std::size_t unsent_ = 0;      // messages before it that the kernel has not wholly taken
  std::size_t sent_bytes_ = 0;  // of the oldest of them
  std::array<std::size_t, kSlots> message_bytes_{};  // with the header

  std::uint64_t arrived_ = 0, released_ = 0;
  std::size_t filling_ = 0;  // the slot of the message that comes next, or is coming
  std::size_t came_bytes_ = 0, expected_bytes_ = sizeof(Header);  // of that message, with header
  std::span<const std::byte> staged_;                             // not yet copied to a slot
  std::array<std::byte, kStageBytes> stage_;
};

}  // namespace lockstep
