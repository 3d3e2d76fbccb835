#include "platform/server/janitor/janitor.h"

#include <algorithm>
#include <system_error>

#include "base/log.h"
#include "base/os/file_lock.h"
#include "platform/host/node_files.h"
#include "platform/host/sweep.h"
#include "platform/server/janitor/cleanup_candidates.h"
#include "platform/store/run_values.h"

namespace lockstep::server {
namespace {

namespace fs = std::filesystem;

constexpr Duration kSlice = std::chrono::milliseconds(5);
// Between scans of all nodes, for missed ones and for those that have become old.
constexpr Duration kScanInterval = std::chrono::hours(1);
constexpr Duration kRetry = std::chrono::minutes(1);
constexpr std::size_t kQueueMax = 10'000;  // nodes; the next scan finds those beyond
constexpr std::int64_t kPagesAtOnce = 64;
constexpr Duration kSizeCheckInterval = std::chrono::seconds(2);
constexpr int kRunsAtOnce = 64;      // of the scan
constexpr int kSettingsAtOnce = 50;  // runs, in one transaction

// Operations that may fail, as named in failure messages.
constexpr auto kClearing = "clearing up after ended nodes";
constexpr auto kExpiring = "removing the lines of old runs";
constexpr auto kScanning = "looking for old runs";
constexpr auto kRemoving = "removing runs";
constexpr auto kMakingRoom = "making room in the store";
constexpr auto kTakingOver = "moving the metrics of an earlier version";
constexpr auto kReadingSettings = "reading the settings of the runs of an earlier version";
constexpr auto kExpiringRanks = "removing old points of ranks";
constexpr auto kLimitingMetrics = "making room for metrics";
constexpr auto kUploads = "removing files of uploaded folders";
constexpr auto kShrinking = "giving back unused space of the store";

template <class T>
std::optional<Error> error_of(const Result<T>& result) {
  return result ? std::nullopt : std::optional(result.error());
}

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(file, ignored));
}

}  // namespace

void Janitor::queue_ended_nodes(const model::RunId& run) {
  for (const model::NodeId& node : last_ended_nodes(setup_.state, run))
    if (queue_.size() < kQueueMax) queue_.insert(name_of(setup_.state, node));
}

void Janitor::run_slice() {
  for (Deadline deadline = Deadline::after(kSlice); !deadline.passed();)
    if (do_one_task() == SliceResult::idle) return;
}

Janitor::SliceResult Janitor::do_one_task() {
  for (const auto part :
       {&Janitor::import_spool, &Janitor::process_queue, &Janitor::remove_runs, &Janitor::make_room,
        &Janitor::make_room_for_metrics, &Janitor::continue_scan, &Janitor::expire_points_of_ranks,
        &Janitor::take_over_metrics, &Janitor::take_over_settings, &Janitor::shrink_database,
        &Janitor::clean_up_uploads})
    if ((this->*part)() == SliceResult::worked) return SliceResult::worked;
  return SliceResult::idle;
}

// --- Nodes ---

Janitor::SliceResult Janitor::import_spool() {
  if (!importer_) return SliceResult::idle;
  const auto done = importer_->import_slice();
  if (done && !*done)
    return SliceResult::idle;  // one batch a slice, or none while the file is read
  importer_.reset();
  if (done)
    sweep(importing_node_);
  else
    retry_later(importing_node_, done.error());
  return SliceResult::worked;
}

Janitor::SliceResult Janitor::process_queue() {
  if (queue_.empty() && setup_.steady.since_boot() >= retry_) queue_.swap(failed_);
  if (queue_.empty() || importer_) return SliceResult::idle;
  clean_up(queue_.extract(queue_.begin()).value());
  return SliceResult::worked;
}

Janitor::SliceResult Janitor::continue_scan() {
  if (importer_ || setup_.steady.since_boot() < next_scan_) return SliceResult::idle;
  return scans_ended_runs_ ? scan_ended_runs() : scan_open_runs();
}

// Nodes of ended attempts.
Janitor::SliceResult Janitor::scan_open_runs() {
  scanned_node_ = next_node(setup_.state, scanned_node_);
  if (!scanned_node_)
    scans_ended_runs_ = true;
  else if (attempt_has_ended(setup_.state, *scanned_node_))
    clean_up(name_of(setup_.state, *scanned_node_));
  return SliceResult::worked;
}

void Janitor::clean_up(const model::NodeName& node) {
  const host::NodeFiles files{host::node_folder(setup_.home, node)};
  // If the run's folder was removed by hand, its sockets still exist: they are elsewhere.
  if (!is_there(files.folder)) return sweep(node);
  const host::OwnersAccess as_owner(files.folder);
  if (!is_there(files.launch_file()) || is_locked(files.lock())) return;
  std::error_code none;
  const auto size = fs::file_size(files.spool(), none);
  if (none || size == 0) return sweep(node);
  importer_ = std::make_unique<SpoolImporter>(setup_.insight, node, files.spool());
  importing_node_ = node;
}

void Janitor::sweep(const model::NodeName& node) {
  const host::NodeFiles files{host::node_folder(setup_.home, node)};
  const auto swept = host::sweep_leftovers(
      files, host::socket_folders(setup_.token_of(node), host::owner_of(files.folder)));
  if (!swept) return retry_later(node, swept.error());
  if (failed_.empty() && queue_.empty()) (void)log_outcome(kClearing, std::nullopt);
}

// Suspending a machine overnight shifts its clock, too, but by less than kMuch.
bool Janitor::trusts_clock() {
  constexpr Duration kMuch = std::chrono::days(1);
  const Time zero = clock_zero();
  if (zero - last_clock_zero_ >= kMuch) trusted_since_ = setup_.steady.since_boot();
  last_clock_zero_ = zero;
  return setup_.steady.since_boot() - trusted_since_ >= std::min(kClockTrusted, setup_.keep_logs);
}

void Janitor::retry_later(const model::NodeName& node, const Error& error) {
  (void)log_outcome(kClearing, Error(error).with_context(text(node.id)));
  if (failed_.empty()) retry_ = setup_.steady.since_boot() + kRetry;
  if (failed_.size() < kQueueMax) failed_.insert(node);
}

// --- Ended runs ---

store::CleanupLevel Janitor::level_due(const store::EndedRun& run) {
  const Duration age = setup_.clock.now() - run.ended;
  if (!trusts_clock() || age <= setup_.keep_logs) return store::CleanupLevel::leftovers;
  return age <= std::max(setup_.keep_logs, setup_.keep_metrics) ? store::CleanupLevel::lines
                                                                : store::CleanupLevel::points;
}

// One run at a time: its nodes, then its lines and points, then the record that it is done. A run
// that fails is left to the next scan.
Janitor::SliceResult Janitor::scan_ended_runs() {
  const bool resumed = current_run_ && setup_.state.open.contains(current_run_->run.id);
  if (resumed) current_run_.reset();
  if (!current_run_) {
    if (!log_outcome(kScanning, error_of(begin_next_ended_run())) || !current_run_) {
      scans_ended_runs_ = false;
      scanned_run_.reset();
      next_scan_ = setup_.steady.since_boot() + kScanInterval;
    }
  } else if (current_run_->next_node < current_run_->nodes.size()) {
    clean_up_next_node();
  } else if (const auto more = expire_reports(); !more || !*more) {
    if (log_outcome(kExpiring, error_of(more)))
      (void)log_outcome(kExpiring, error_of(finish_ended_run()));
    current_run_.reset();
  }
  return SliceResult::worked;
}

// None is left if there is no current run afterwards.
Result<void> Janitor::begin_next_ended_run() {
  for (;;) {
    if (page_.empty())
      for (store::EndedRun& run :
           TRY(store::ended_runs_after(setup_.database, scanned_run_, kRunsAtOnce)))
        page_.push_back(std::move(run));
    if (page_.empty()) return {};
    scanned_run_ = std::move(page_.front());
    page_.pop_front();
    const store::CleanupLevel due = level_due(*scanned_run_);
    if (scanned_run_->cleaned >= due) continue;
    current_run_ = {.run = *scanned_run_,
                    .due = due,
                    .nodes = TRY(store::node_names_of(setup_.database, scanned_run_->id))};
    return {};
  }
}

// A node with a launch file must be swept before its logs are: the next scan finds it old.
void Janitor::clean_up_next_node() {
  const model::NodeName& node = current_run_->nodes[current_run_->next_node++];
  clean_up(node);
  const host::NodeFiles files{host::node_folder(setup_.home, node)};
  if (current_run_->due < store::CleanupLevel::lines || is_there(files.launch_file())) return;
  if (const auto swept = host::sweep_logs(files); !swept) retry_later(node, swept.error());
}

// True while there is more.
Result<bool> Janitor::expire_reports() {
  const auto& [run, due, nodes, next] = *current_run_;
  if (due >= store::CleanupLevel::lines && TRY(setup_.insight.expire_log(run.id))) return true;
  return due >= store::CleanupLevel::points && TRY(setup_.insight.expire_points(run.id));
}

Result<void> Janitor::finish_ended_run() {
  const auto has_more = [&](const model::NodeName& node) {
    const host::NodeFiles files{host::node_folder(setup_.home, node)};
    return failed_.contains(node) || is_there(files.launch_file());
  };
  if (std::ranges::any_of(current_run_->nodes, has_more)) return {};
  current_run_->run.cleaned = current_run_->due;
  return store::record_cleaned(setup_.database, current_run_->run);
}

// --- Removed runs ---

Janitor::SliceResult Janitor::remove_runs() {
  if (importer_ || setup_.steady.since_boot() < next_removal_) return SliceResult::idle;
  if (!removal_) {
    auto next = store::next_removed_run(setup_.database);
    if (!log_outcome(kRemoving, error_of(next)) || !*next) return SliceResult::idle;
    removal_.emplace(setup_.insight, setup_.home, setup_.token_of, **std::move(next));
  }
  const auto step = removal_->work();
  if (step && *step == RunRemoval::Step::waits) return SliceResult::idle;
  if (step && *step == RunRemoval::Step::worked) return SliceResult::worked;
  auto done = step ? store::finish_removed_run(setup_.database, removal_->id())
                   : Result<void>(step.error());
  removal_.reset();
  if (!log_outcome(kRemoving, error_of(done))) next_removal_ = setup_.steady.since_boot() + kRetry;
  return SliceResult::worked;
}

// --- The store ---

Janitor::SliceResult Janitor::make_room() {
  if (setup_.steady.since_boot() < next_size_check_) return SliceResult::idle;
  const auto used = setup_.database.used();
  if (log_outcome(kMakingRoom, error_of(used)) && *used > setup_.store_max) {
    const auto freed = setup_.insight.free_some();
    if (freed && *freed) return SliceResult::worked;
    (void)log_outcome(
        kMakingRoom,
        freed
            ? Error{Code::exhausted,
                    format("the store takes {} and may take {}, and the lines are removed; "
                           "`lockstep rm` removes runs, `lockstep serve --store-max` sets another "
                           "limit",
                           text(*used), text(setup_.store_max))}
            : freed.error());
  }
  next_size_check_ = setup_.steady.since_boot() + kSizeCheckInterval;
  return SliceResult::idle;
}

Janitor::SliceResult Janitor::make_room_for_metrics() {
  if (setup_.steady.since_boot() < next_metrics_check_) return SliceResult::idle;
  next_metrics_check_ = setup_.steady.since_boot() + kSizeCheckInterval;
  (void)log_outcome(kLimitingMetrics, error_of(setup_.insight.limit_points(setup_.metrics_max)));
  return SliceResult::idle;
}

// The series store does the work on a thread of its own.
Janitor::SliceResult Janitor::expire_points_of_ranks() {
  if (setup_.steady.since_boot() < next_expiry_ || !trusts_clock()) return SliceResult::idle;
  next_expiry_ = setup_.steady.since_boot() + kScanInterval;
  const Time now = setup_.clock.now();
  (void)log_outcome(
      kExpiringRanks,
      error_of(setup_.insight.expire_ranks({.ranks = now - setup_.keep_ranks,
                                            .around_findings = setup_.keep_around,
                                            .telemetry = now - setup_.keep_telemetry})));
  return SliceResult::idle;
}

Janitor::SliceResult Janitor::take_over_metrics() {
  const auto more = setup_.insight.take_over_points();
  return log_outcome(kTakingOver, error_of(more)) && *more ? SliceResult::worked
                                                           : SliceResult::idle;
}

Janitor::SliceResult Janitor::take_over_settings() {
  const auto more = store::take_over_run_values(setup_.database, kSettingsAtOnce);
  return log_outcome(kReadingSettings, error_of(more)) && *more ? SliceResult::worked
                                                                : SliceResult::idle;
}

Janitor::SliceResult Janitor::shrink_database() {
  const auto unused = setup_.database.unused();
  if (!log_outcome(kShrinking, error_of(unused)) || *unused <= setup_.unused_most)
    return SliceResult::idle;
  return log_outcome(kShrinking, error_of(setup_.database.shrink(kPagesAtOnce)))
             ? SliceResult::worked
             : SliceResult::idle;
}

// --- Uploaded folders ---

Janitor::SliceResult Janitor::clean_up_uploads() {
  if (setup_.uploads == nullptr) return SliceResult::idle;
  const auto more = setup_.uploads->clean_up_slice();
  if (more && !*more) return SliceResult::idle;
  return log_outcome(kUploads, error_of(more)) ? SliceResult::worked : SliceResult::idle;
}

// --- Failures ---

bool Janitor::log_outcome(const char* what, const std::optional<Error>& error) {
  if (!error) {
    if (rate_limited_log_.clear(what)) LS_LOG(info, "{} goes well again", what);
    return true;
  }
  const auto words = format("{}: {}; it is tried again", what, error->message);
  if (rate_limited_log_.should_log(what, words)) LS_LOG(warning, "{}", words);
  return false;
}

}  // namespace lockstep::server
