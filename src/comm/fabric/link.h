// Link: the data path between this rank and one peer. Three implementations: shm/ (rings in shared
// memory), tcp/ (connections) and ofi/ (libfabric messages).
//
// Idea. Each direction has two channels, each a short queue of kSlots slots of kSlotBytes. A sender
// claims the next slot, writes into it and publishes it. The receiver reads the oldest message in
// place and releases it. So a reduction reads its operand directly from the slot and may write its
// result directly into the slot of the next link. A peer that is ahead finds no free slot and
// waits, which bounds unexpected data. For providers that need registered memory, the slots are the
// only such memory. The cost is one copy of data that needs no arithmetic.
//
// Collectives and point-to-point messages have separate channels, so neither blocks the other. No
// function here blocks: an empty result means "not now". For one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace lockstep::comm {

enum class LinkChannel : std::uint8_t { collective, point_to_point };
inline constexpr LinkChannel kLinkChannels[] = {LinkChannel::collective,
                                                LinkChannel::point_to_point};
inline constexpr std::size_t kLinkChannelCount = 2;

// More than two, or a ring whose links are all full could not make progress (ring.h).
inline constexpr std::size_t kSlots = 4;
// The capacity of a slot; pieces of large data may be smaller. Unused pages cost nothing.
inline constexpr std::size_t kSlotBytes = 512 * 1024;
// Within a host: pieces that stay in a core's share of the cache. Over TCP: pieces that justify
// their system calls and, with headers, fit into one kernel segment (64 KiB less headers), so that
// no remainder is sent and awaited separately. Over libfabric: pieces that justify the providers'
// rendezvous protocol for each large message.
inline constexpr std::size_t kLocalPieceBytes = 128 * 1024;
inline constexpr std::size_t kTcpPieceBytes = 60 * 1024;
inline constexpr std::size_t kOfiPieceBytes = kSlotBytes;
// The data of a TCP connection in both kernels' buffers, beside its slots. A lower bound, because
// Linux gives it more where the wire needs more.
inline constexpr std::size_t kSocketBufferBytes = 256 * 1024;

// Identifies a message; sender and receiver must agree on all of it but the piece's size.
struct MessageHeader {
  std::uint64_t sequence = 0;  // the collective's number in its group; the number of a send
  std::uint64_t bytes = 0;     // of the whole call
  std::uint32_t piece = 0;     // number of this message in its call
  std::uint32_t payload = 0;   // bytes of this message
  std::int32_t root = 0;       // or a send's tag
  std::uint8_t operation = 0;  // its meaning and the next two: comm/collective
  std::uint8_t type = 0;
  std::uint8_t reduce = 0;
  std::uint8_t reserved = 0;
  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;
};
static_assert(sizeof(MessageHeader) == 32);

struct IncomingMessage {
  MessageHeader header;
  const std::byte* payload;
};

class Link {
 public:
  virtual ~Link() = default;

  // A buffer for kSlotBytes of payload, the same until publish(); null while the peer is behind.
  virtual std::byte* claim(LinkChannel channel) = 0;
  // Sends the claimed slot's first header.payload bytes.
  virtual void publish(LinkChannel channel, const MessageHeader& header) = 0;
  // The oldest message that has arrived; valid until release().
  virtual std::optional<IncomingMessage> front(LinkChannel channel) = 0;
  virtual void release(LinkChannel channel) = 0;

  // The number of messages so far. With it a rank that leaves knows that all its messages have
  // arrived.
  virtual std::uint64_t sent(LinkChannel channel) const = 0;
  virtual std::uint64_t arrived(LinkChannel channel) const = 0;

  // True if messages may still be leaving this host, so that the peer waits for the wire. May need
  // a system call.
  virtual bool has_unsent(LinkChannel channel) const = 0;

  // The minimum size of the pieces for large data.
  virtual std::size_t piece_bytes() const = 0;

  // Called before and after this rank sleeps on a channel: the peer then rings the doorbell.
  virtual void set_sleeping(LinkChannel channel, bool sleeping) = 0;
  // Rings the doorbell if the peer sleeps on the channel. publish() and release() do so themselves;
  // this is for memory that is shared beside the link.
  virtual void notify(LinkChannel channel) = 0;
};

}  // namespace lockstep::comm
