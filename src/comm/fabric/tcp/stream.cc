#include "comm/fabric/tcp/stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/format.h"
#include "comm/fabric/slot.h"

namespace lockstep::comm {
namespace {

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

std::byte* Stream::send_slot(std::size_t slot) const { return memory_ + slot * kSlotSpace; }
std::byte* Stream::receive_slot(std::size_t slot) const {
  return memory_ + (kSlots + slot) * kSlotSpace;
}

std::byte* Stream::claim() {
  return unsent_ < kSlots ? send_slot(next_send_) + kPayloadOffset : nullptr;
}

bool Stream::has_unsent() const {
  int bytes = 0;
  return unsent_ > 0 || (::ioctl(fd(), SIOCOUTQ, &bytes) == 0 && bytes > 0);
}

void Stream::publish(const MessageHeader& header) {
  std::memcpy(send_slot(next_send_) + kHeaderOffset, &header, sizeof header);
  message_bytes_[next_send_] = sizeof header + header.payload;
  next_send_ = (next_send_ + 1) % kSlots;
  ++unsent_;
  ++published_;
  send();
  if (unsent_ == 0) next_send_ = 0;
}

void Stream::send() {
  while (unsent_ > 0 && writable_ && !close_reason_) {
    const auto slot = (next_send_ + kSlots - unsent_) % kSlots;
    const auto left = message_bytes_[slot] - sent_bytes_;
    const auto took = ::send(fd(), send_slot(slot) + kHeaderOffset + sent_bytes_, left,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (took < 0 && errno == EINTR) continue;
    if (took < 0) {
      // After a connection failed, receive() reports the reason, after all data that arrived
      // before.
      writable_ = false;
      readable_ = readable_ || !would_block(errno);
      return;
    }
    sent_bytes_ += static_cast<std::size_t>(took);
    if (sent_bytes_ < message_bytes_[slot]) continue;
    sent_bytes_ = 0;
    --unsent_;
  }
}

std::optional<IncomingMessage> Stream::front() const {
  const auto full = arrived_ - released_;
  if (full == 0) return std::nullopt;
  const auto* slot = receive_slot((filling_ + kSlots - full) % kSlots);
  IncomingMessage incoming{{}, slot + kPayloadOffset};
  std::memcpy(&incoming.header, slot + kHeaderOffset, sizeof incoming.header);
  return incoming;
}

void Stream::release() { ++released_; }

void Stream::on_epoll_events(std::uint32_t events) {
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) hangup_seen_ = true;
  if (hangup_seen_ || (events & EPOLLIN) != 0) readable_ = true;
  if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) writable_ = true;
}

Result<void> Stream::progress() {
  send();
  return receive();
}

Result<void> Stream::receive() {
  for (;;) {
    TRY(drain_stage());
    if (close_reason_ || !readable_ || !staged_.empty()) return {};
    read_more();
  }
}

// In one call: the rest of the current message goes to its slot, and what follows it to the stage.
// The stage is filled even without a free slot, so that the end is detected even if this rank is
// far behind.
void Stream::read_more() {
  const bool in_payload = received_bytes_ >= sizeof(MessageHeader);
  const auto rest = in_payload ? expected_bytes_ - received_bytes_ : 0;
  iovec parts[] = {{receive_slot(filling_) + kHeaderOffset + received_bytes_, rest},
                   {stage_.data(), stage_.size()}};
  const auto got =
      rest > 0 ? ::readv(fd(), parts, 2) : ::recv(fd(), stage_.data(), stage_.size(), MSG_DONTWAIT);
  if (got <= 0) {
    if (got < 0 && errno == EINTR) return;
    readable_ = false;
    if (got == 0 || !would_block(errno))
      close_reason_ = got == 0 ? std::string() : errno_text(errno);
    return;
  }
  const auto bytes = static_cast<std::size_t>(got);
  const auto direct = std::min(bytes, rest);
  received_bytes_ += direct;
  staged_ = std::span<const std::byte>(stage_).first(bytes - direct);
  if (direct > 0 && received_bytes_ == expected_bytes_) end_message();
  // Fewer bytes than requested means all was read; epoll signals later data again. Reading detects
  // the end.
  if (bytes < rest + stage_.size() && !hangup_seen_) readable_ = false;
}

Result<void> Stream::drain_stage() {
  while (!staged_.empty() && has_room()) {
    if (received_bytes_ == 0 && arrived_ == released_) filling_ = 0;
    const auto bytes = std::min(expected_bytes_ - received_bytes_, staged_.size());
    std::memcpy(receive_slot(filling_) + kHeaderOffset + received_bytes_, staged_.data(), bytes);
    staged_ = staged_.subspan(bytes);
    const bool in_header = received_bytes_ < sizeof(MessageHeader);
    received_bytes_ += bytes;
    if (in_header && received_bytes_ == sizeof(MessageHeader)) TRY(end_header());
    if (received_bytes_ == expected_bytes_ && received_bytes_ >= sizeof(MessageHeader))
      end_message();
  }
  return {};
}

Result<void> Stream::end_header() {
  MessageHeader header;
  std::memcpy(&header, receive_slot(filling_) + kHeaderOffset, sizeof header);
  if (header.payload > kSlotBytes)
    return Error{Code::corrupt, format("a message of {} bytes came, where none has more than {}",
                                       header.payload, kSlotBytes)};
  expected_bytes_ = sizeof header + header.payload;
  return {};
}

void Stream::end_message() {
  ++arrived_;
  filling_ = (filling_ + 1) % kSlots;
  received_bytes_ = 0;
  expected_bytes_ = sizeof(MessageHeader);
}

}  // namespace lockstep::comm
