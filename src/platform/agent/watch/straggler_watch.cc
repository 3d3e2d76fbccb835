#include "platform/agent/watch/straggler_watch.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "base/format.h"
#include "base/os/files.h"
#include "comm/flight/diagnosis/slow_link.h"
#include "comm/flight/diagnosis/straggler.h"
#include "comm/flight/log.h"

namespace lockstep::agent {
namespace {

// An event is read as an alarm. Smaller differences between ranks are normal; `lockstep flight`
// shows them on request.
constexpr comm::StragglerThresholds kAlarmThresholds{
    .lag_min = std::chrono::milliseconds(5), .cost_share_min = 0.1, .last_ratio_min = 2};

constexpr int kReportsPerFindingMax =
    3;  // per rank; alternating stragglers would fill the run's events

// In memory at once. The records of 8,000 ranks have 33 million, some 10 GB.
constexpr std::size_t kKeptOperationsMax = 262'144;
// Twice as many as a result needs.
constexpr std::size_t kKeptOperationsMin = 64;

void keep_newest(comm::FlightLog& log, std::size_t most) {
  auto& operations = log.operations;
  if (operations.size() <= most) return;
  operations = {operations.end() - static_cast<std::ptrdiff_t>(most), operations.end()};
}

}  // namespace

std::size_t operations_kept(std::size_t records) {
  return std::max(kKeptOperationsMin, kKeptOperationsMax / std::max<std::size_t>(1, records));
}

StragglerWatch::StragglerWatch(std::vector<std::filesystem::path> folders, Duration period)
    : folders_(std::move(folders)), period_(period), due_(Deadline::after(period)) {}

std::vector<StragglerWatch::Finding> StragglerWatch::poll() {
  if (!scanning_) begin_scan();
  if (!unread_.empty()) read_next_record();
  if (!unread_.empty()) return {};
  return finish_scan();
}

void StragglerWatch::begin_scan() {
  scanning_ = true;
  due_ = Deadline::after(Duration(0));
  for (const auto& folder : folders_)
    if (const auto files = list_folder(folder))
      std::ranges::copy_if(*files, std::back_inserter(unread_), comm::is_flight_file);
  operations_kept_ = operations_kept(unread_.size());
}

// No rank waits for a process that has ended. Unreadable records are left out, and their group with
// them.
void StragglerWatch::read_next_record() {
  auto log = comm::read_flight_file(unread_.back());
  unread_.pop_back();
  if (!log || log->process == comm::ProcessState::ended) return;
  keep_newest(*log, operations_kept_);
  logs_.push_back(*std::move(log));
}

std::vector<StragglerWatch::Finding> StragglerWatch::finish_scan() {
  scanning_ = false;
  due_ = Deadline::after(period_);
  const auto groups = comm::flight_groups(std::exchange(logs_, {}));
  std::vector<Finding> told;
  for (const comm::Straggler& one : comm::find_stragglers(groups, kAlarmThresholds))
    if (is_new(format("{}", one.rank))) told.push_back({one.rank, text(one)});
  for (const comm::FlightGroup& group : groups)
    for (const comm::SlowLink& one : comm::find_slow_links(group))
      if (is_new(format("{} to {}", one.from.rank, one.to.rank)))
        told.push_back({one.from.rank, text(one)});
  before_ = std::exchange(now_, {});
  return told;
}

bool StragglerWatch::is_new(const std::string& what) {
  const bool seen = !now_.insert(what).second;
  return !seen && !before_.contains(what) && ++report_counts_[what] <= kReportsPerFindingMax;
}

}  // namespace lockstep::agent
