#include "platform/agent/straggler_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/files.h"
#include "base/format.h"
#include "comm/flight/log.h"
#include "comm/flight/verdict/slow_link.h"
#include "comm/flight/verdict/straggler.h"

namespace lockstep {
namespace {

// An event is read as an alarm. Less than this is the usual unevenness of ranks; `lockstep flight`
// names it when it is asked.
constexpr StragglerBounds kAlarming{.behind = std::chrono::milliseconds(5), .cost = 0.1, .last = 2};

constexpr int kToldMost = 3;  // of a rank; who is late by turns would fill the run's events

}  // namespace

StragglerWatch::StragglerWatch(std::vector<std::filesystem::path> folders, Duration period)
    : folders_(std::move(folders)), period_(period), due_(Deadline::after(period)) {}

std::vector<StragglerWatch::Finding> StragglerWatch::turn() {
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

std::vector<StragglerWatch::Finding> StragglerWatch::end_look() {
  looking_ = false;
  due_ = Deadline::after(period_);
  const auto groups = flight_groups(std::exchange(logs_, {}));
  std::vector<Finding> told;
  for (const Straggler& one : stragglers_of(groups, kAlarming))
    if (is_new(format("{}", one.rank))) told.push_back({one.rank, words_of(one)});
  for (const FlightGroup& group : groups)
    for (const SlowLink& one : slow_links_of(group))
      if (is_new(format("{} to {}", one.from.rank, one.to.rank)))
        told.push_back({one.from.rank, words_of(one)});
  before_ = std::exchange(now_, {});
  return told;
}

bool StragglerWatch::is_new(const std::string& what) {
  const bool seen = !now_.insert(what).second;
  return !seen && !before_.contains(what) && ++told_[what] <= kToldMost;
}

}  // namespace lockstep
