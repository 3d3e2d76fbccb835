#include "platform/core/sched/holders.h"

#include <utility>

namespace lockstep {

namespace {

Holders::End end_of(const Holder& holder) {
  return {holder.expected_end, &holder, holder.run.number};
}

}  // namespace

std::int64_t device_count(const Holder& holder) {
  std::int64_t devices = 0;
  for (const Taken& taken : holder.taken) devices += load_of(taken).devices;
  return devices;
}

bool Holders::Sooner::operator()(const End& a, const End& b) const {
  if (a.time != b.time) return a.time < b.time;
  if (a.number != b.number) return a.number < b.number;
  if (a.holder->run != b.holder->run) return a.holder->run < b.holder->run;
  return a.holder->arriving < b.holder->arriving;
}

std::uint64_t Holders::Sooner::prefix(const End& end) {
  return ordered_bits(end.time.time_since_epoch().count());
}

std::optional<int> Holders::find(const RunId& run, bool arriving) const {
  return by_run_.find(hash_of(run), [&](int slot) {
    const Holder& holder = at(slot);
    return holder.run == run && holder.arriving == arriving;
  });
}

void Holders::reserve(std::size_t count) {
  by_run_.reserve(count);
  ends_.reserve(count);
}

int Holders::take_slot(Holder&& holder) {
  if (!free_slots_.empty()) {
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    at(slot) = std::move(holder);
    return slot;
  }
  if (blocks_.empty() || blocks_.back().size() == kBlock) blocks_.emplace_back().reserve(kBlock);
  blocks_.back().push_back(std::move(holder));
  return static_cast<int>((blocks_.size() - 1) * kBlock + blocks_.back().size()) - 1;
}

void Holders::add(Holder&& holder) {
  LS_CHECK(!contains(holder.run, holder.arriving));
  const int slot = take_slot(std::move(holder));
  const Holder& there = at(slot);
  by_run_.add(hash_of(there.run), slot);
  count(there, 1);
  ends_.add(end_of(there));
}

Holder Holders::remove(const RunId& run, bool arriving) {
  const auto slot = find(run, arriving);
  LS_CHECK(slot.has_value());
  Holder& there = at(*slot);
  count(there, -1);
  ends_.remove(end_of(there));
  by_run_.remove(hash_of(run), *slot);
  free_slots_.push_back(*slot);
  return std::move(there);
}

std::optional<Time> Holders::last_leaving() {
  if (leaving_ == 0) return std::nullopt;
  std::optional<Time> last;
  for (const auto& [end, holder, _] : by_end())
    if (holder->leaving) last = end;
  return last;
}

void Holders::count(const Holder& holder, int sign) {
  Sum& sum = sums_[static_cast<std::size_t>(holder.run_class)];
  sum.devices += sign * device_count(holder);
  sum.runs += sign;
  leaving_ += sign * int{holder.leaving};
  movable_ += sign * int{holder.moves_left > 0 && !holder.leaving};
  pausable_ += sign * int{holder.may_pause && !holder.leaving};
}

}  // namespace lockstep
