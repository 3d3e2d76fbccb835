// Stream: one channel of a TcpLink. It sends messages from slots into a connection, and receives
// from it into slots.
//
// The connection's own flow control bounds the data in flight. A receiver without a free slot does
// not read; then the sender's kernel accepts no more data, and then the sender has no free slot. So
// there are no credits, and a message costs one system call on each side. Header and payload are
// adjacent in the slot. One readv() reads the rest of a message into its slot and the start of the
// next ones into a small *stage*, from which they are copied.
//
// Whenever all slots are empty, the first one is used next, so that small data stays in the cache.
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

namespace lockstep::comm {

class Stream {
 public:
  // The size of the slots of both directions; unused pages cost nothing.
  static constexpr std::size_t kMemoryBytes = 2 * kSlots * kSlotSpace;

  // memory: kMemoryBytes bytes, page-aligned, which outlive the stream.
  Stream(net::Socket socket, std::byte* memory) : socket_(std::move(socket)), memory_(memory) {}
  Stream(const Stream&) = delete;  // it points to its own stage
  Stream& operator=(const Stream&) = delete;

  // As in Link.
  std::byte* claim();
  void publish(const MessageHeader& header);
  std::optional<IncomingMessage> front() const;
  void release();
  std::uint64_t sent() const { return published_; }
  std::uint64_t arrived() const { return arrived_; }
  // Includes data in the kernel that the peer's kernel has not acknowledged yet.
  bool has_unsent() const;

  int fd() const { return socket_.fd(); }
  // events: what epoll, edge-triggered, returned for the connection.
  void on_epoll_events(std::uint32_t events);
  // A message may have begun to arrive: progress() shall check, without an event of epoll. False
  // when a message is partly received already; epoll will signal the rest.
  bool assume_readable() {
    if (received_bytes_ > 0) return false;
    readable_ = true;
    return true;
  }
  // True when progress() would do something without a further event of epoll.
  bool has_work() const {
    if (!staged_.empty() && has_room()) return true;
    return !close_reason_ && ((unsent_ > 0 && writable_) || (staged_.empty() && readable_));
  }
  // Sends and receives what is possible now. `corrupt` when the received data is no message; the
  // end of the connection is no error here.
  Result<void> progress();
  // No more data will arrive; all that arrived is in slots.
  bool is_closed() const { return close_reason_.has_value() && staged_.empty(); }
  // The reason; empty: the peer has closed the connection.
  const std::string& close_reason() const { return *close_reason_; }

 private:
  static constexpr std::size_t kStageBytes = 8192;

  std::byte* send_slot(std::size_t slot) const;
  std::byte* receive_slot(std::size_t slot) const;
  bool has_room() const { return arrived_ - released_ < kSlots; }
  void send();
  Result<void> receive();
  // Copies staged data to messages, as far as there are free slots.
  Result<void> drain_stage();
  Result<void> end_header();
  void end_message();
  void read_more();

  net::Socket socket_;
  std::byte* const memory_;
  bool readable_ = true, writable_ = true;  // until the kernel reports that they are not
  bool hangup_seen_ = false;                // the kernel has reported that the end is near
  std::optional<std::string> close_reason_;

  std::uint64_t published_ = 0;
  std::size_t next_send_ = 0;   // the slot to claim
  std::size_t unsent_ = 0;      // messages before it that the kernel has not fully accepted
  std::size_t sent_bytes_ = 0;  // of the oldest of them
  std::array<std::size_t, kSlots> message_bytes_{};  // with the header

  std::uint64_t arrived_ = 0, released_ = 0;
  std::size_t filling_ = 0;  // the slot of the message that arrives next or is partly received
  std::size_t received_bytes_ = 0,
              expected_bytes_ = sizeof(MessageHeader);  // of that message, with header
  std::span<const std::byte> staged_;                   // not yet copied to a slot
  std::array<std::byte, kStageBytes> stage_;
};

}  // namespace lockstep::comm
