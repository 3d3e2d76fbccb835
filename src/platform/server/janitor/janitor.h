// Janitor: cleans up after ended nodes and old runs, a few milliseconds at a time, on the daemon's
// thread (docs/design/keeping.md).
//
// A node that has ended and still has its launch file is swept:
// first the content of its spool goes into the store, then spool, secret, sockets and, as the last,
// the launch file are removed. So if the daemon is killed in between, the next daemon finds the
// same work again. An old run loses its lines and its ranks' own files, and later its points. It
// records what is finished for an ended run, so that it is not looked at again. A removed run loses
// everything that is below the daemon's folder. Nodes that the store does not know, and checkpoints
// of other runs, are never touched.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/rate_limited_log.h"
#include "base/steady_clock.h"
#include "platform/core/model/state.h"
#include "platform/insight/insight.h"
#include "platform/server/janitor/run_removal.h"
#include "platform/server/janitor/spool_importer.h"
#include "platform/server/uploads/upload_store.h"
#include "platform/store/cleanup_tables.h"

namespace lockstep::server {

inline constexpr Duration kKeepLogs = std::chrono::days(30);
inline constexpr Duration kKeepMetrics = std::chrono::days(365);
inline constexpr Duration kKeepRanks = std::chrono::hours(24);
inline constexpr Duration kKeepAround = std::chrono::minutes(10);
inline constexpr Duration kKeepTelemetry = std::chrono::days(7);
inline constexpr Bytes kStoreMax = 32_GiB;
inline constexpr Bytes kMetricsMax = 64_GiB;
// A clock may be wrong by a month and be corrected within hours. So nothing is removed because of
// its age in the daemon's first hours, and in the first hours after the clock was set forward by a
// day or more.
inline constexpr Duration kClockTrusted = std::chrono::hours(6);

struct JanitorSetup {
  const model::State& state;  // the controller's; these five outlive the janitor
  insight::Insight& insight;
  store::Database& database;
  const Clock& clock;
  const SteadyClock& steady;
  std::filesystem::path home;
  std::function<std::string(const model::NodeName&)>
      token_of;                              // for socket names, see node_files.h
  Duration keep_logs = kKeepLogs;            // after the run's end
  Duration keep_metrics = kKeepMetrics;      // likewise
  Duration keep_ranks = kKeepRanks;          // of points of single ranks, after they were logged
  Duration keep_around = kKeepAround;        // of these, before and after a finding, for good
  Duration keep_telemetry = kKeepTelemetry;  // by seconds; then by minutes
  Bytes store_max = kStoreMax;               // of the database: above it lines make room
  Bytes metrics_max = kMetricsMax;           // of the points of all runs: above it the oldest go
  Bytes unused_most = 64_MiB;      // above it the store's file shrinks; below it space is reused
  UploadStore* uploads = nullptr;  // outlives the janitor; null: there are none
};

class Janitor {
 public:
  explicit Janitor(JanitorSetup setup)
      : setup_(std::move(setup)),
        rate_limited_log_(setup_.clock),
        trusted_since_(setup_.steady.since_boot()) {}

  // This run has changed: its ended nodes come first.
  void queue_ended_nodes(const model::RunId& run);
  // Call it at every tick. It returns after about 5 ms, or when no work is left.
  void run_slice();
  // Current failures, a line for each cause, for operators; other work continues.
  std::vector<std::string> problems() const { return rate_limited_log_.active_failures(); }

 private:
  enum class SliceResult { worked, idle };
  struct EndedRunCleanup {
    store::EndedRun run;
    store::CleanupLevel due = store::CleanupLevel::none;
    std::vector<model::NodeName> nodes{};
    std::size_t next_node = 0;
  };

  SliceResult do_one_task();
  SliceResult import_spool();
  SliceResult process_queue();
  SliceResult continue_scan();
  SliceResult scan_open_runs();
  SliceResult scan_ended_runs();
  SliceResult remove_runs();
  SliceResult make_room();
  SliceResult shrink_database();
  SliceResult make_room_for_metrics();
  SliceResult expire_points_of_ranks();
  SliceResult take_over_metrics();
  SliceResult take_over_settings();
  SliceResult clean_up_uploads();
  Time clock_zero() const { return setup_.clock.now() - setup_.steady.since_boot(); }
  bool trusts_clock();
  void clean_up(const model::NodeName& node);
  void sweep(const model::NodeName& node);
  void retry_later(const model::NodeName& node, const Error& error);
  store::CleanupLevel level_due(const store::EndedRun& run);
  Result<void> begin_next_ended_run();
  void clean_up_next_node();
  Result<bool> expire_reports();
  Result<void> finish_ended_run();
  bool log_outcome(const char* what, const std::optional<Error>& error);

  JanitorSetup setup_;
  RateLimitedLog rate_limited_log_;
  std::set<model::NodeName> queue_;             // ended recently
  std::unique_ptr<SpoolImporter> importer_;     // the current one
  model::NodeName importing_node_;              // its node
  std::optional<model::NodeId> scanned_node_;   // the last node of the current scan of open runs
  bool scans_ended_runs_ = false;               // after the open ones
  std::deque<store::EndedRun> page_;            // the next ended runs of the scan
  std::optional<store::EndedRun> scanned_run_;  // the last ended run of the scan
  std::optional<EndedRunCleanup> current_run_;  // the one that is being cleaned up
  std::optional<RunRemoval> removal_;           // the run that is being removed
  std::set<model::NodeName> failed_;            // to be tried again
  // By the steady clock:
  Duration next_scan_{};  // start of the next scan
  Duration retry_{};      // when failed ones are tried again
  Duration next_size_check_{}, next_metrics_check_{}, next_removal_{}, next_expiry_{};
  // Wall-clock time at the zero of the steady clock, and since when it is trusted.
  Time last_clock_zero_ = clock_zero();
  Duration trusted_since_{};
};

}  // namespace lockstep::server
