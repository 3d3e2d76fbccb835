// The bytes of a flight record, in memory and in a file: a header, then a ring of slots. The writer
// uses words that others may read at the same time (Word is an atomic); a reader of a copy uses
// plain ones. One description serves both.
//
// A slot is written by one thread at a time. Its version is odd during the write. Every word is
// stored with release and loaded with acquire. So if the version is even and the same before and
// after, the reader has one state of the slot. No thread waits for another. A process that is
// killed during a write leaves an odd version: only that slot is lost.
//
// Numbers have the byte order of the machine that wrote them. The magic, read as bytes, is the same
// on all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::comm::flight_format {

inline constexpr char kMagic[8] = {'L', 'S', 'F', 'L', 'I', 'G', 'H', 'T'};
inline constexpr std::uint32_t kFormat = 2;
inline constexpr std::size_t kSlots = 4096;
inline constexpr std::size_t kNames = 32;
inline constexpr std::size_t kNameBytes = 16;
inline constexpr std::size_t kLabelWords = 3;
// For an operation without a type, a reduction, a root or a peer.
inline constexpr std::uint8_t kNoCode = 0xff;

using SharedWord = std::atomic<std::uint64_t>;
static_assert(sizeof(SharedWord) == sizeof(std::uint64_t) && SharedWord::is_always_lock_free);

// The same time by three clocks: ticks, which slots use; the steady clock; UTC. The latter two in
// nanoseconds.
template <class Word>
struct ClockSample {
  Word version{};
  Word ticks{};
  Word steady{};
  Word wall{};
};

// Names by code, padded with zeros. So a file is self-describing for any later reader.
using Names = char[kNames][kNameBytes];

template <class Word>
struct Header {
  char magic[8];
  std::uint32_t format;
  std::uint32_t slots;  // kSlots; fewer in a summary
  std::int32_t rank;
  std::int32_t size;  // of the group
  std::uint32_t pid;
  std::uint32_t launch_rank;    // RANK of the process, plus one; 0: unknown
  std::uint64_t process_start;  // as in /proc/PID/stat, to detect a reused pid
  double nanoseconds_per_tick;  // as measured when the process began
  ClockSample<Word> first;      // when the record began
  ClockSample<Word> latest;     // renewed at intervals, which makes the rate more exact
  Word dropped;                 // operations without a free slot
  char group[128];              // unique among all groups of the run
  char host[128];
  char pid_space[64];  // the scope of the pid: the boot and the namespace
  Names operations;
  Names types;
  Names reductions;
  std::uint64_t receive;  // the code of the operation that receives from a peer
  char name[128];         // of the group, for messages
  char members[1024];     // global ranks, by rank in the group, as ranges; empty: they do not fit
};

template <class Word>
struct Slot {
  Word version{};
  Word number{};  // counted from 1 in this record; 0: never used
  Word sequence{};
  Word bytes{};
  Word received_bytes{};  // bytes received from others
  Word codes{};     // from the lowest byte: state, operation, type, reduction; above them the root
  Word peers{};     // low half: of a send or recv; high half: the awaited rank
  Word enqueued{};  // in ticks, as the next three; 0: not yet
  Word started{};
  Word ended{};
  Word waiting_since{};
  Word label[kLabelWords]{};
  Word wait_reason{};  // a WaitReason
  // The longest waits of a collective that is done. longest_peers: in the low half the peer that
  // was to receive data, in the high half the one that was to send data, each plus one; 0: none.
  Word longest_peers{};
  Word longest_send_wait{};  // in ticks
  Word longest_receive_wait{};
};
static_assert(sizeof(Slot<std::uint64_t>) == 144 && sizeof(Slot<SharedWord>) == 144);

inline constexpr std::size_t kHeaderBytes = 4096;
static_assert(sizeof(Header<std::uint64_t>) <= kHeaderBytes);
static_assert(sizeof(Header<SharedWord>) == sizeof(Header<std::uint64_t>));
inline constexpr std::size_t kFileBytes = kHeaderBytes + kSlots * sizeof(Slot<SharedWord>);

}  // namespace lockstep::comm::flight_format
