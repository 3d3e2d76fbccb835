#include "comm/flight/summary.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "comm/flight/format.h"
#include "comm/flight/recorder.h"

namespace lockstep::comm {
namespace {

using namespace flight_format;
using PlainSlot = Slot<std::uint64_t>;

static_assert(kHeaderBytes + (kSummaryCollectives + kSummaryPointToPoint + kSummaryEnded) *
                                 sizeof(PlainSlot) <=
              kSummaryBytes);

// In the order of submission, without those that were half-written.
std::vector<PlainSlot> slots_of(std::span<const std::byte> record) {
  std::vector<PlainSlot> slots((record.size() - kHeaderBytes) / sizeof(PlainSlot));
  if (slots.empty()) return slots;
  std::memcpy(static_cast<void*>(slots.data()), record.data() + kHeaderBytes,
              slots.size() * sizeof(PlainSlot));
  std::erase_if(slots,
                [](const PlainSlot& slot) { return slot.version % 2 == 1 || slot.number == 0; });
  std::ranges::sort(slots, {}, &PlainSlot::number);
  return slots;
}

bool is_collective(const PlainSlot& slot) {
  return static_cast<std::int32_t>(slot.peers & 0xffffffff) == -1;
}

bool ended_well(const PlainSlot& slot) {
  return static_cast<FlightState>(slot.codes & 0xff) == FlightState::done;
}

// Adds at most `most` of the slots in [first, last) that are wanted.
template <class Iterator, class TensorRead>
void add(Iterator first, Iterator last, std::size_t most, TensorRead wanted,
         std::vector<PlainSlot>& chosen) {
  for (; first != last && most > 0; ++first)
    if (wanted(*first)) {
      chosen.push_back(*first);
      --most;
    }
}

std::vector<PlainSlot> choose(const std::vector<PlainSlot>& slots) {
  const auto is_open_exchange = [](const PlainSlot& slot) {
    return !is_collective(slot) && !ended_well(slot);
  };
  const auto is_ended_exchange = [](const PlainSlot& slot) {
    return !is_collective(slot) && ended_well(slot);
  };
  std::vector<PlainSlot> chosen;
  add(slots.rbegin(), slots.rend(), kSummaryCollectives, is_collective, chosen);
  add(slots.begin(), slots.end(), kSummaryPointToPoint, is_open_exchange, chosen);
  add(slots.rbegin(), slots.rend(), kSummaryEnded, is_ended_exchange, chosen);
  return chosen;
}

std::vector<PlainSlot> choose_newest(const std::vector<PlainSlot>& slots, std::size_t most) {
  std::vector<PlainSlot> chosen;
  add(
      slots.begin(), slots.end(), most / 2, [](const PlainSlot& slot) { return !ended_well(slot); },
      chosen);
  const std::uint64_t last_open = chosen.empty() ? 0 : chosen.back().number;
  add(
      slots.rbegin(), slots.rend(), most - chosen.size(),
      [&](const PlainSlot& slot) { return ended_well(slot) || slot.number > last_open; }, chosen);
  return chosen;
}

// Returns the record with these operations instead of its own.
std::vector<std::byte> record_of(std::span<const std::byte> record,
                                 const std::vector<PlainSlot>& chosen) {
  std::vector<std::byte> brief(kHeaderBytes + chosen.size() * sizeof(PlainSlot));
  std::memcpy(brief.data(), record.data(), kHeaderBytes);
  const auto slots = static_cast<std::uint32_t>(chosen.size());
  std::memcpy(brief.data() + offsetof(Header<std::uint64_t>, slots), &slots, sizeof slots);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    std::memcpy(brief.data() + kHeaderBytes + i * sizeof(PlainSlot), &chosen[i], sizeof(PlainSlot));
  return brief;
}

}  // namespace

std::vector<std::byte> summarize_flight_record(std::span<const std::byte> record) {
  LS_CHECK(record.size() >= kHeaderBytes, "{} bytes", record.size());
  return record_of(record, choose(slots_of(record)));
}

std::vector<std::byte> flight_excerpt(std::span<const std::byte> record, std::size_t most) {
  LS_CHECK(record.size() >= kHeaderBytes, "{} bytes", record.size());
  return record_of(record, choose_newest(slots_of(record), most));
}

std::size_t operations_in_excerpt(std::size_t bytes) {
  return bytes < kHeaderBytes ? 0 : (bytes - kHeaderBytes) / sizeof(PlainSlot);
}

}  // namespace lockstep::comm
