// Link: the data path between this rank and one peer. Three implementations: shm/ (rings in shared
// memory), tcp/ (connections) and ofi/ (libfabric messages).
//
// Idea. Each direction has two lanes, each a short queue of kSlots slots of kSlotBytes. A sender
// claims the next slot, writes into it and publishes it; the receiver looks at the oldest message
// where it lies and releases it. So a reduction reads its operand straight from the slot and may
// write its result straight into the slot of the next link; a peer that runs ahead finds no free
// slot and waits, which bounds what is unexpected; and registered memory is all there is to know
// for providers that ask for it. The cost is one copy of data that does not need arithmetic.
//
// Collectives and point-to-point messages have a lane each, so that neither stands in the other's
// way. Nothing here blocks: "not now" is an empty answer. For one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace lockstep {

enum class Lane : std::uint8_t { collective, point_to_point };
inline constexpr Lane kLanes[] = {Lane::collective, Lane::point_to_point};
inline constexpr std::size_t kLaneCount = 2;

// More than two, or a ring whose every link is full could not move (ring.h).
inline constexpr std::size_t kSlots = 4;
// A slot's room, which pieces of much data need not fill. Pages never used cost nothing.
inline constexpr std::size_t kSlotBytes = 512 * 1024;
// Within a host, pieces that stay in a core's share of cache; over TCP, pieces that are worth their
// system calls and, with their headers, go down the kernel's stack as one segment (64 KiB less
// headers), of which nothing is left to be sent and waited for by itself; over libfabric, the
// rendezvous which its providers hold for each large message.
inline constexpr std::size_t kLocalPieceBytes = 128 * 1024;
inline constexpr std::size_t kTcpPieceBytes = 60 * 1024;
inline constexpr std::size_t kOfiPieceBytes = kSlotBytes;
// What a TCP connection in use holds beside its slots, in the kernels of both ends; at least, as
// Linux gives it more where the wire needs more.
inline constexpr std::size_t kHeldBytes = 256 * 1024;

// What a message belongs to; sender and receiver must agree on all of it but the piece's size.
struct Header {
  std::uint64_t sequence = 0;  // the collective's number in its group; the number of a send
  std::uint64_t bytes = 0;     // of the whole call
  std::uint32_t piece = 0;     // number of this message in its call
  std::uint32_t payload = 0;   // bytes of this message
  std::int32_t root = 0;       // or a send's tag
  std::uint8_t operation = 0;  // meaning of these three: comm/collective
  std::uint8_t type = 0;
  std::uint8_t reduce = 0;
  std::uint8_t reserved = 0;
  friend bool operator==(const Header&, const Header&) = default;
};
static_assert(sizeof(Header) == 32);

struct Incoming {
  Header header;
  const std::byte* payload;
};

class Link {
 public:
  virtual ~Link() = default;

  // Room for kSlotBytes of payload, the same until publish(); null while the peer is behind.
  virtual std::byte* claim(Lane lane) = 0;
  // Sends the claimed slot's first header.payload bytes.
  virtual void publish(Lane lane, const Header& header) = 0;
  // The oldest message that has come; stays in place until release().
  virtual std::optional<Incoming> front(Lane lane) = 0;
  virtual void release(Lane lane) = 0;

  // Messages so far, by which a rank that leaves knows that all it sent has arrived.
  virtual std::uint64_t sent(Lane lane) const = 0;
  virtual std::uint64_t arrived(Lane lane) const = 0;

  // Whether messages may still be on their way out, so that the wire keeps the peer waiting. May
  // cost a system call.
  virtual bool has_unsent(Lane lane) const = 0;

  // The least size of the pieces in which much data should travel.
  virtual std::size_t piece_bytes() const = 0;

  // Told before this rank sleeps on a lane, and after: the peer then rings the doorbell.
  virtual void set_sleeping(Lane lane, bool sleeping) = 0;
  // Rings if the peer sleeps on the lane; publish() and release() do so by themselves. For memory
  // that is shared beside the link.
  virtual void nudge(Lane lane) = 0;
};

}  // namespace lockstep
