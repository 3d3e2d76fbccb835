#include "comm/algorithm/host_group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <sched.h>

#include "base/check.h"
#include "comm/algorithm/copy.h"

namespace lockstep {
namespace {

// Where each rank has a core, who is waited for comes soon; else it may need ours (spinning.h).
constexpr int kSpinsOnOwnCore = 2000;
constexpr int kSpinsOnSharedCore = 10;
// To read a line that another has just written, with the clock: 20 to 100 ns out of a cache that
// both share, 130 to 200 ns out of another one, and hardly ever between (EPYC of the third
// generation).
constexpr auto kNear = std::chrono::nanoseconds(110);
// So often the core is offered before the wait turns to all else that may happen.
constexpr int kYields = 50;

std::size_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::size_t>(CPU_COUNT(&set));
}

std::size_t place_of(int rank, const std::vector<int>& ranks) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  LS_CHECK(found != ranks.end());
  return static_cast<std::size_t>(found - ranks.begin());
}

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

constexpr auto kNowhere = ~std::uint64_t{0};

// What an entry of lend() holds: offsets in the rank's heap. All sizes follow from the header.
struct Lent {
  std::uint64_t input, output;
};
static_assert(sizeof(Lent) <= sizeof(Entry::inline_data));

Lent lent_in(const Entry& entry) {
  Lent lent;
  std::memcpy(&lent, entry.inline_data, sizeof lent);
  return lent;
}

}  // namespace

HostGroup::HostGroup(Exchange& exchange, const HostShare& share, std::vector<Link*> links)
    : exchange_(exchange),
      share_(share),
      place_(place_of(exchange.rank(), share.ranks)),
      spinning_(share.ranks.size() <= usable_cores() ? kSpinsOnOwnCore : kSpinsOnSharedCore,
                kSpinsOnSharedCore),
      links_(std::move(links)) {}

Result<void> HostGroup::bring(const Header& call, std::span<const std::byte> data,
                              std::size_t most) {
  LS_CHECK(data.size() <= most && most <= kBringBytes);
  ++calls_;
  auto& own = entry(place_);
  brought_inline_ = most <= sizeof own.inline_data;
  copy_bytes(brought_inline_ ? own.inline_data : seat(place_).slots[calls_ % 2], data.data(),
             data.size());
  return enter(call);
}

const std::byte* HostGroup::brought(std::size_t place) const {
  return brought_inline_ ? entry(place).inline_data : seat(place).slots[calls_ % 2];
}

Result<void> HostGroup::lend(const Header& call, std::span<const std::byte> input,
                             std::span<std::byte> output) {
  ++calls_;
  const auto where = [&](std::span<const std::byte> buffer) {
    return share_.heap->offset_of(buffer.data(), buffer.size()).value_or(kNowhere);
  };
  const Lent lent{where(input), where(output)};
  seat(place_).trace.store(calls_, std::memory_order_relaxed);
  std::memcpy(entry(place_).inline_data, &lent, sizeof lent);
  return enter(call);
}

std::byte* HostGroup::lent(std::size_t place, std::uint64_t offset, std::size_t bytes) const {
  if (offset == kNowhere) return nullptr;
  if (place == place_) return share_.heap->at(offset, bytes);
  return share_.heaps[static_cast<std::size_t>(rank(place))]->at(offset, bytes);
}
std::byte* HostGroup::input(std::size_t place, std::size_t bytes) const {
  return lent(place, lent_in(entry(place)).input, bytes);
}
std::byte* HostGroup::output(std::size_t place, std::size_t bytes) const {
  return lent(place, lent_in(entry(place)).output, bytes);
}

template <class Ready>
Result<void> HostGroup::wait_for(std::size_t place, WaitFor what, Ready ready) {
  const int spins = background_ ? kSpinsOnSharedCore : spinning_.spins();
  for (int spin = 0; spin < spins; ++spin) {
    if (ready()) return {};
    pause_core();
  }
  for (int yield = 0; yield < kYields; ++yield) {
    spinning_.yield();
    if (ready()) return {};
  }
  return exchange_.wait_for(rank(place), what, ready);
}

// All stores and loads of these numbers are sequentially consistent, as are those of the flags that
// nudge() looks at: who goes to sleep then sees the number, or is rung (shm_link.h).
Result<void> HostGroup::enter(const Header& call) {
  auto& own = entry(place_);
  own.header = call;
  own.number.store(calls_);
  nudge_all();
  for (std::size_t peer = 0; peer < size(); ++peer) {
    if (peer == place_) continue;
    const auto& other = entry(peer);
    TRY(wait_for(peer, WaitFor::call, [&] { return other.number.load() == calls_; }));
    TRY(exchange_.check_call(rank(peer), other.header));
  }
  return {};
}

// All have entered, so each has written its trace since this rank last read it.
bool HostGroup::near() const {
  for (std::size_t peer = 0; peer < size(); ++peer) {
    if (peer == place_) continue;
    const auto begin = std::chrono::steady_clock::now();
    static_cast<void>(seat(peer).trace.load(std::memory_order_relaxed));
    if (std::chrono::steady_clock::now() - begin > kNear) return false;
  }
  return true;
}

Result<void> HostGroup::meet() {
  ++meetings_;
  seat(place_).stage.store(meetings_);
  nudge_all();
  for (std::size_t peer = 0; peer < size(); ++peer) {
    if (peer == place_) continue;
    const auto& stage = seat(peer).stage;
    TRY(wait_for(peer, WaitFor::take_part, [&] { return stage.load() >= meetings_; }));
  }
  return {};
}

void HostGroup::nudge_all() {
  for (auto* link : links_) link->nudge(Lane::collective);
}

std::byte* HostGroup::staging(std::size_t place) const { return seat(place).staging[pieces_ % 2]; }

}  // namespace lockstep
