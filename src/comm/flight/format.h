// The bytes of a flight record, as they lie in memory and so in a file: a header, then a ring of
// slots. Who writes sees words that others may read meanwhile (Word is an atomic), who reads a copy
// sees plain ones; both are one description.
//
// A slot is written by one thread at a time. Its version is odd meanwhile; every word is stored
// with release and loaded with acquire, so who finds the version even and the same before and
// after has read one state of the slot. Nobody waits for anybody. A process that was killed in the
// midst of writing leaves an odd version: that one slot is lost.
//
// Numbers are those of the machine that wrote them; the magic, read as bytes, is the same on all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::flight_format {

inline constexpr char kMagic[8] = {'L', 'S', 'F', 'L', 'I', 'G', 'H', 'T'};
inline constexpr std::uint32_t kFormat = 2;
inline constexpr std::size_t kSlots = 4096;
inline constexpr std::size_t kNames = 32;
inline constexpr std::size_t kNameBytes = 16;
inline constexpr std::size_t kLabelWords = 3;
// Of an operation without a type, a reduction, a root or a peer.
inline constexpr std::uint8_t kNoCode = 0xff;

using SharedWord = std::atomic<std::uint64_t>;
static_assert(sizeof(SharedWord) == sizeof(std::uint64_t) && SharedWord::is_always_lock_free);

// The same moment by three clocks: ticks, of which slots are made; the steady clock; UTC. The
// latter two in nanoseconds.
template <class Word>
struct Moment {
  Word version{};
  Word ticks{};
  Word steady{};
  Word wall{};
};

// Names by code, filled up with zeros. So a file explains itself to any later reader.
using Names = char[kNames][kNameBytes];

template <class Word>
struct Header {
  char magic[8];
  std::uint32_t format;
  std::uint32_t slots;  // kSlots; fewer in a brief record
  std::int32_t rank;
  std::int32_t size;  // of the group
  std::uint32_t pid;
  std::uint32_t started_as;     // RANK of the process, plus one; 0: unknown
  std::uint64_t process_start;  // as in /proc/PID/stat, to tell a pid that was given again
  double nanoseconds_per_tick;  // as measured when the process began
  Moment<Word> first;           // when the record began
  Moment<Word> latest;          // renewed now and then, which makes the rate more exact
  Word dropped;                 // operations for which there was no room
  char group[128];              // unlike that of any other group of the run
  char host[128];
  char pid_space[64];  // where the pid means this process: the boot and the namespace
  Names operations;
  Names types;
  Names reductions;
  std::uint64_t receive;  // the code of the operation that receives from a peer
  char name[128];         // of the group, for people
  char members[1024];     // ranks of the run, by rank in the group, as runs; empty: they do not fit
};

template <class Word>
struct Slot {
  Word version{};
  Word number{};  // counted from 1 in this record; 0: never used
  Word sequence{};
  Word bytes{};
  Word came{};      // bytes that have come from others
  Word codes{};     // from the lowest byte: state, operation, type, reduction; above them the root
  Word peers{};     // low half: of a send or recv; high half: the rank that is waited for
  Word enqueued{};  // in ticks, as the next three; 0: not yet
  Word started{};
  Word ended{};
  Word waiting_since{};
  Word label[kLabelWords]{};
  Word waiting_for{};  // a WaitFor
  // The longest waits of a collective that is done. longest_peers: in the low half the peer that
  // was to take data, in the high half the one that was to send data, each plus one; 0: none.
  Word longest_peers{};
  Word longest_take{};  // in ticks
  Word longest_send{};
};
static_assert(sizeof(Slot<std::uint64_t>) == 144 && sizeof(Slot<SharedWord>) == 144);

inline constexpr std::size_t kHeaderBytes = 4096;
static_assert(sizeof(Header<std::uint64_t>) <= kHeaderBytes);
static_assert(sizeof(Header<SharedWord>) == sizeof(Header<std::uint64_t>));
inline constexpr std::size_t kFileBytes = kHeaderBytes + kSlots * sizeof(Slot<SharedWord>);

}  // namespace lockstep::flight_format
