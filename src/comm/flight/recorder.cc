#include "comm/flight/recorder.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/os/environment.h"
#include "comm/flight/label.h"
#include "comm/flight/process_identity.h"

namespace lockstep::comm {
namespace {

using namespace flight_format;
using SharedSlot = Slot<SharedWord>;
using SharedHeader = Header<SharedWord>;
using SharedMoment = ClockSample<SharedWord>;

// The number of running operations that are skipped in search of a free slot.
constexpr int kPassedOver = 16;
// The clocks are also sampled once per this number of ends.
constexpr std::uint64_t kEndsPerClockSample = 256;
// Reading all clocks takes some 100 ns.
constexpr double kUnnoticed = 2000;  // ns
constexpr int kClockTries = 4;
constexpr auto kStored = std::memory_order_release;
constexpr auto kOwn = std::memory_order_relaxed;

// The version is odd while this lives.
class SlotWriteGuard {
 public:
  explicit SlotWriteGuard(SharedWord& version) : version_(version), odd_(version.load(kOwn) | 1) {
    version_.store(odd_, kOwn);
  }
  ~SlotWriteGuard() { version_.store(odd_ + 1, kStored); }
  SlotWriteGuard(const SlotWriteGuard&) = delete;
  SlotWriteGuard& operator=(const SlotWriteGuard&) = delete;

 private:
  SharedWord& version_;
  const std::uint64_t odd_;
};

FlightState state_of(const SharedSlot& slot) {
  return static_cast<FlightState>(slot.codes.load(std::memory_order_acquire) & 0xff);
}

// Reads the state first: if it is an end, the version read next shows whether its writer is still
// active.
bool is_free(const SharedSlot& slot) {
  const bool over = slot.number.load(kOwn) == 0 || state_of(slot) >= FlightState::done;
  return over && slot.version.load(std::memory_order_acquire) % 2 == 0;
}

void set_state(SharedSlot& slot, FlightState state) {
  slot.codes.store((slot.codes.load(kOwn) & ~0xffULL) | static_cast<std::uint64_t>(state), kStored);
}

std::uint64_t codes_of(const FlightCall& call, FlightState state) {
  return static_cast<std::uint64_t>(state) | static_cast<std::uint64_t>(call.operation) << 8 |
         static_cast<std::uint64_t>(call.type) << 16 |
         static_cast<std::uint64_t>(call.reduction) << 24 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)) << 32;
}

std::uint64_t peers_of(int peer, int waited_for) {
  return static_cast<std::uint32_t>(peer) |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(waited_for)) << 32;
}

void set_waited_for(SharedSlot& slot, int rank, std::uint64_t since) {
  slot.peers.store(peers_of(static_cast<std::int32_t>(slot.peers.load(kOwn) & 0xffffffff), rank),
                   kStored);
  slot.waiting_since.store(since, kStored);
}

std::uint64_t nanoseconds(auto time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

ClockReading read_clocks(const TickClock& clock) {
  const auto good_enough = static_cast<std::uint64_t>(kUnnoticed / clock.nanoseconds_per_tick());
  return best_clock_reading(kClockTries, good_enough, [&] {
    const std::uint64_t before = clock.now();
    const auto steady = std::chrono::steady_clock::now();
    const auto wall = std::chrono::system_clock::now();
    const std::uint64_t took = clock.now() - before;
    return ClockReading{before + took / 2, took, steady, wall};
  });
}

void note(SharedMoment& moment, const TickClock& clock) {
  const auto now = read_clocks(clock);
  const SlotWriteGuard writing(moment.version);
  moment.ticks.store(now.ticks, kStored);
  moment.steady.store(nanoseconds(now.steady), kStored);
  moment.wall.store(nanoseconds(now.wall), kStored);
}

template <std::size_t N>
void put(char (&to)[N], std::string_view content) {
  std::memcpy(to, content.data(), std::min(content.size(), N));
}

void put(Names& to, std::span<const std::string_view> names) {
  LS_CHECK(names.size() <= kNames, "{} names, {} at most", names.size(), kNames);
  for (std::size_t i = 0; i < names.size(); ++i) put(to[i], names[i]);
}

// The rank with which the process was started, plus one: agents identify it by that.
std::uint32_t launch_rank() {
  const auto variables = own_environment();
  const auto found = variables.find("RANK");
  if (found == variables.end()) return 0;
  std::uint32_t rank = 0;
  const auto* end = found->second.data() + found->second.size();
  const auto parsed = std::from_chars(found->second.data(), end, rank);
  return parsed.ec == std::errc() && parsed.ptr == end && rank < (1U << 24) ? rank + 1 : 0;
}

void fill(std::byte* memory, const FlightIdentity& identity, const FlightNames& names) {
  auto& header = *::new (memory) SharedHeader();
  put(header.magic, {kMagic, sizeof kMagic});
  header.format = kFormat;
  header.slots = kSlots;
  header.rank = identity.rank;
  header.size = static_cast<std::int32_t>(identity.members.ranks.size());
  header.pid = static_cast<std::uint32_t>(::getpid());
  header.launch_rank = launch_rank();
  header.process_start = process_start(::getpid());
  header.nanoseconds_per_tick = TickClock::get().nanoseconds_per_tick();
  put(header.group, identity.group);
  put(header.host, identity.host);
  put(header.pid_space, pid_space());
  put(header.operations, names.operations);
  put(header.types, names.types);
  put(header.reductions, names.reductions);
  header.receive = names.receive;
  put(header.name, text(identity.members));
  if (const auto runs = to_rank_ranges(identity.members.ranks); runs.size() < sizeof header.members)
    put(header.members, runs);
  note(header.first, TickClock::get());
  // The slots stay as they are: zeros are slots that were never used. To touch all of their memory
  // takes a third of a millisecond, in which a group could have started.
}

FlightMemory make_memory(const FlightIdentity& identity, const FlightNames& names) {
  const int number = identity.members.global_rank(identity.rank);
  const auto fill_it = [&](std::byte* memory) { fill(memory, identity, names); };
  const auto variables = own_environment();
  if (const auto folder = variables.find(kFlightFolderVariable);
      folder != variables.end() && !folder->second.empty()) {
    const auto path =
        std::filesystem::path(folder->second) / flight_file_name(number, identity.group);
    auto memory = FlightMemory::create_in_file(path, kFileBytes, fill_it);
    if (memory) return *std::move(memory);
    LS_LOG(warning, "{}; the flight record of rank {} is kept in memory only",
           memory.error().message, number);
  }
  auto memory = FlightMemory::create_anonymous(kFileBytes, fill_it);
  LS_CHECK(memory.has_value(), "no memory for a flight record");
  return *std::move(memory);
}

// Copies 8 bytes at a time, as they were stored.
void copy_words(const SharedWord* from, std::size_t words, std::byte* to) {
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = from[i].load(std::memory_order_acquire);
    std::memcpy(to + i * sizeof word, &word, sizeof word);
  }
}

// Copies one state of a part that begins with a version; an odd version when it changed each time.
template <class Versioned>
void copy_state(const Versioned& from, std::byte* to) {
  const auto* words = reinterpret_cast<const SharedWord*>(&from);
  std::uint64_t version = 1;
  for (int i = 0; i < 3 && (version % 2 == 1 || version != from.version.load(kOwn)); ++i) {
    version = from.version.load(std::memory_order_acquire);
    copy_words(words, sizeof from / sizeof *words, to);
  }
  if (version != from.version.load(kOwn)) version = 1;
  std::memcpy(to, &version, sizeof version);
}

}  // namespace

FlightRecorder::FlightRecorder(const FlightIdentity& identity, const FlightNames& names)
    : clock_(TickClock::get()),
      memory_(make_memory(identity, names)),
      header_(*std::launder(reinterpret_cast<SharedHeader*>(memory_.data()))),
      slots_(std::launder(reinterpret_cast<SharedSlot*>(memory_.data() + kHeaderBytes))) {}

FlightRecorder::~FlightRecorder() { sample_clocks(); }

FlightTicket FlightRecorder::record_queued(const FlightCall& call) noexcept {
  return write_slot(call, FlightState::queued);
}

FlightTicket FlightRecorder::record_started(const FlightCall& call) noexcept {
  return write_slot(call, FlightState::started);
}

FlightTicket FlightRecorder::write_slot(const FlightCall& call, FlightState state) noexcept {
  Slot* const slot = free_slot();
  if (slot == nullptr) return {};
  const std::uint64_t now = clock_.now();
  const auto& label = FlightLabel::current();
  const SlotWriteGuard writing(slot->version);
  slot->sequence.store(call.sequence, kStored);
  slot->bytes.store(call.bytes, kStored);
  slot->received_bytes.store(0, kStored);
  slot->codes.store(codes_of(call, state), kStored);
  slot->peers.store(peers_of(call.peer, -1), kStored);
  slot->enqueued.store(now, kStored);
  slot->started.store(state == FlightState::started ? now : 0, kStored);
  slot->ended.store(0, kStored);
  slot->waiting_since.store(0, kStored);
  slot->longest_peers.store(0, kStored);
  for (std::size_t i = 0; i < kLabelWords; ++i) slot->label[i].store(label[i], kStored);
  slot->number.store(++number_, kStored);
  return FlightTicket(slot);
}

FlightRecorder::Slot* FlightRecorder::free_slot() noexcept {
  for (int i = 0; i < kPassedOver; ++i) {
    Slot& slot = slots_[next_++ % kSlots];
    if (is_free(slot)) return &slot;
  }
  header_.dropped.store(header_.dropped.load(kOwn) + 1, kStored);
  return nullptr;
}

void FlightRecorder::mark_started(FlightTicket ticket) noexcept {
  if (ticket.slot_ == nullptr) return;
  const std::uint64_t now = clock_.now();
  const SlotWriteGuard writing(ticket.slot_->version);
  ticket.slot_->started.store(now, kStored);
  set_state(*ticket.slot_, FlightState::started);
}

void FlightRecorder::mark_waiting(FlightTicket ticket, int peer, WaitReason what,
                                  std::uint64_t received_bytes) noexcept {
  if (ticket.slot_ == nullptr) return;
  sample_clocks();
  waiting_for_ = what;
  const std::uint64_t now = clock_.now();
  const SlotWriteGuard writing(ticket.slot_->version);
  set_waited_for(*ticket.slot_, peer, now);
  ticket.slot_->wait_reason.store(static_cast<std::uint64_t>(what), kStored);
  ticket.slot_->received_bytes.store(received_bytes, kStored);
}

void FlightRecorder::mark_resumed(FlightTicket ticket, int held_up) noexcept {
  if (ticket.slot_ == nullptr) return;
  Slot& slot = *ticket.slot_;
  if (waiter_ != &slot) waits_.clear();
  waiter_ = &slot;
  const auto ticks = clock_.now() - slot.waiting_since.load(kOwn);
  waits_.add(static_cast<std::int32_t>(slot.peers.load(kOwn) >> 32), waiting_for_, ticks);
  if (held_up >= 0 && waiting_for_ == WaitReason::send_data)
    waits_.add(held_up, WaitReason::receive_data, ticks);
  const SlotWriteGuard writing(slot.version);
  set_waited_for(slot, -1, 0);
}

void FlightRecorder::mark_ended(FlightTicket ticket, bool well,
                                std::uint64_t received_bytes) noexcept {
  if (ticket.slot_ == nullptr) return;
  const std::uint64_t now = clock_.now();
  if (++ends_ % kEndsPerClockSample == 0) sample_clocks();
  const SlotWriteGuard writing(ticket.slot_->version);
  ticket.slot_->ended.store(now, kStored);
  ticket.slot_->received_bytes.store(received_bytes, kStored);
  const bool waited = waiter_ == ticket.slot_;
  if (waited) waiter_ = nullptr;
  if (well && waited) write_longest_waits(*ticket.slot_);
  set_state(*ticket.slot_, well ? FlightState::done : FlightState::failed);
}

void FlightRecorder::write_longest_waits(Slot& slot) noexcept {
  const auto take = waits_.longest_send_wait();
  const auto send = waits_.longest_receive_wait();
  slot.longest_send_wait.store(take.ticks, kStored);
  slot.longest_receive_wait.store(send.ticks, kStored);
  slot.longest_peers.store(peers_of(take.peer + 1, send.peer + 1), kStored);
}

void FlightRecorder::sample_clocks() noexcept { note(header_.latest, clock_); }

// Slots are used in order. The memory of those behind stays untouched: zeroing and copying all of
// them was half of the processor time in which a large group fails.
std::vector<std::byte> FlightRecorder::snapshot() const {
  const auto used = std::find_if(slots_, slots_ + kSlots, [](const SharedSlot& slot) {
    return slot.number.load(std::memory_order_relaxed) == 0;
  });
  const auto slots = static_cast<std::size_t>(used - slots_);
  std::vector<std::byte> copy(kHeaderBytes + slots * sizeof(SharedSlot));
  std::memcpy(copy.data(), &header_, offsetof(SharedHeader, latest));
  copy_state(header_.latest, copy.data() + offsetof(SharedHeader, latest));
  copy_words(&header_.dropped, 1, copy.data() + offsetof(SharedHeader, dropped));
  std::memcpy(copy.data() + offsetof(SharedHeader, group), header_.group,
              sizeof header_ - offsetof(SharedHeader, group));
  const auto count = static_cast<std::uint32_t>(slots);
  std::memcpy(copy.data() + offsetof(SharedHeader, slots), &count, sizeof count);
  for (std::size_t i = 0; i < slots; ++i)
    copy_state(slots_[i], copy.data() + kHeaderBytes + i * sizeof(SharedSlot));
  return copy;
}

}  // namespace lockstep::comm
