#include "platform/agent/straggler_watch.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "comm/flight/log.h"

namespace lockstep {
namespace {

constexpr int kToldMost = 3;  // of a rank; who is late by turns would fill the run's events

}  // namespace

StragglerWatch::StragglerWatch(std::vector<std::filesystem::path> folders, Duration period)
    : folders_(std::move(folders)), period_(period), due_(Deadline::after(period)) {}

std::vector<Straggler> StragglerWatch::turn() {
  if (!looking_) begin_look();
  if (!unread_.empty()) read_one();
  if (!unread_.empty()) return {};
  return end_look();
}

void StragglerWatch::begin_look() {
  looking_ = true;
  due_ = Deadline::after(Duration(0));
  for (const auto& folder : folders_)
    if (const auto files = list_folder(folder))
      std::ranges::copy_if(*files, std::back_inserter(unread_), is_flight_file);
}

// Of a process that has ended nobody waits for anything more. What cannot be read is left out, and
// its group with it.
void StragglerWatch::read_one() {
  auto log = read_flight_file(unread_.back());
  unread_.pop_back();
  if (log && log->process != ProcessState::ended) logs_.push_back(*std::move(log));
}

std::vector<Straggler> StragglerWatch::end_look() {
  looking_ = false;
  due_ = Deadline::after(period_);
  auto found = stragglers_of(flight_groups(std::exchange(logs_, {})));
  std::vector<int> late;
  for (const Straggler& one : found) late.push_back(one.rank);
  std::erase_if(found, [this](const Straggler& one) {
    const bool known = std::ranges::find(late_, one.rank) != late_.end();
    return known || ++told_[one.rank] > kToldMost;
  });
  late_ = std::move(late);
  return found;
}

}  // namespace lockstep
