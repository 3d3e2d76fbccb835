#include "platform/server/janitor/janitor.h"

#include <algorithm>
#include <system_error>

#include "base/log.h"
#include "base/os/file_lock.h"
#include "platform/host/node_files.h"
#include "platform/server/janitor/cleanup_candidates.h"
#include "platform/server/janitor/sweep.h"

namespace lockstep::server {
namespace {

namespace fs = std::filesystem;

constexpr Duration kSlice = std::chrono::milliseconds(5);
// Between scans of all nodes, for missed ones and for those that have become old.
constexpr Duration kScanInterval = std::chrono::hours(1);
constexpr Duration kRetry = std::chrono::minutes(1);
constexpr std::size_t kQueueMax = 10'000;  // nodes; the next scan finds those beyond
constexpr std::int64_t kPagesAtOnce = 64;

// Operations that may fail, as named in failure messages.
constexpr auto kClearing = "clearing up after ended nodes";
constexpr auto kExpiring = "removing the lines of old runs";
constexpr auto kSumming = "summing up metrics";
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
    if (queue_.size() < kQueueMax) queue_.insert(node);
}

void Janitor::run_slice() {
  for (Deadline deadline = Deadline::after(kSlice); !deadline.passed();)
    if (do_one_task() == SliceResult::idle) return;
}

Janitor::SliceResult Janitor::do_one_task() {
  for (const auto part : {&Janitor::import_spool, &Janitor::process_queue, &Janitor::continue_scan,
                          &Janitor::summarize_metrics, &Janitor::shrink_database})
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
  if (expiring_) {
    const auto more = setup_.insight.expire_log(*expiring_);
    // A failed run waits for the next scan.
    if (!log_outcome(kExpiring, error_of(more)) || !*more) expiring_.reset();
    return SliceResult::worked;
  }
  scanned_node_ = next_node(setup_.state, scanned_node_);
  if (!scanned_node_) {
    next_scan_ = setup_.steady.since_boot() + kScanInterval;
    return SliceResult::worked;
  }
  if (attempt_has_ended(setup_.state, *scanned_node_)) {
    clean_up(*scanned_node_);
    expire_if_old(*scanned_node_);
  }
  return SliceResult::worked;
}

void Janitor::clean_up(const model::NodeId& node) {
  const host::NodeFiles files{host::node_folder(setup_.home, name_of(setup_.state, node))};
  // If the run's folder was removed by hand, its sockets still exist: they are elsewhere.
  if (!is_there(files.folder)) return sweep(node);
  if (!is_there(files.launch_file()) || is_locked(files.lock())) return;
  std::error_code none;
  const auto size = fs::file_size(files.spool(), none);
  if (none || size == 0) return sweep(node);
  importer_ = std::make_unique<SpoolImporter>(setup_.insight, node, files.spool());
  importing_node_ = node;
}

void Janitor::sweep(const model::NodeId& node) {
  const auto swept =
      sweep_leftovers({host::node_folder(setup_.home, name_of(setup_.state, node))},
                      host::socket_folders(setup_.token_of(name_of(setup_.state, node))));
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

void Janitor::expire_if_old(const model::NodeId& node) {
  const model::Run& run = setup_.state.runs.at(node.attempt.run);
  const host::NodeFiles files{host::node_folder(setup_.home, name_of(setup_.state, node))};
  if (!trusts_clock() || !is_old(run, setup_.clock.now(), setup_.keep_logs)) return;
  expiring_ = run.id;
  if (is_there(files.launch_file())) return;  // must be swept first: the next scan finds it old
  if (const auto swept = sweep_logs(files); !swept) retry_later(node, swept.error());
}

void Janitor::retry_later(const model::NodeId& node, const Error& error) {
  (void)log_outcome(kClearing, Error(error).with_context(text(node)));
  if (failed_.empty()) retry_ = setup_.steady.since_boot() + kRetry;
  if (failed_.size() < kQueueMax) failed_.insert(node);
}

// --- The store ---

Janitor::SliceResult Janitor::summarize_metrics() {
  const auto more = setup_.insight.summarize_pending();
  return log_outcome(kSumming, error_of(more)) && *more ? SliceResult::worked : SliceResult::idle;
}

Janitor::SliceResult Janitor::shrink_database() {
  const auto unused = setup_.database.unused();
  if (!log_outcome(kShrinking, error_of(unused)) || *unused <= setup_.unused_most)
    return SliceResult::idle;
  return log_outcome(kShrinking, error_of(setup_.database.shrink(kPagesAtOnce)))
             ? SliceResult::worked
             : SliceResult::idle;
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
