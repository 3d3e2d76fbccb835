// Janitor: cleans up after ended nodes and old runs, a few milliseconds at a time, on the daemon's
// thread (docs/design/keeping.md).
//
// It stores no state of its own. A node that has ended and still has its launch file is swept:
// first the content of its spool goes into the store, then spool, secret, sockets and, as the last,
// the launch file are removed. So if the daemon is killed in between, the next daemon finds the
// same work again. An old run loses its lines and its ranks' own files. Nodes that the store does
// not know, and checkpoints, are never touched.
#pragma once

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
#include "platform/server/janitor/spool_importer.h"

namespace lockstep::server {

inline constexpr Duration kKeepLogs = std::chrono::days(30);
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
      token_of;                    // for socket names, see node_files.h
  Duration keep_logs = kKeepLogs;  // after the run's end
  Bytes unused_most = 64_MiB;      // above it the store's file shrinks; below it space is reused
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

  SliceResult do_one_task();
  SliceResult import_spool();
  SliceResult process_queue();
  SliceResult continue_scan();
  SliceResult shrink_database();
  SliceResult summarize_metrics();
  Time clock_zero() const { return setup_.clock.now() - setup_.steady.since_boot(); }
  bool trusts_clock();
  void clean_up(const model::NodeId& node);
  void expire_if_old(const model::NodeId& node);
  void sweep(const model::NodeId& node);
  void retry_later(const model::NodeId& node, const Error& error);
  bool log_outcome(const char* what, const std::optional<Error>& error);

  JanitorSetup setup_;
  RateLimitedLog rate_limited_log_;
  std::set<model::NodeId> queue_;              // ended recently
  std::unique_ptr<SpoolImporter> importer_;    // the current one
  model::NodeId importing_node_;               // its node
  std::optional<model::NodeId> scanned_node_;  // the last node of the current scan
  std::optional<model::RunId> expiring_;       // its lines are being removed
  std::set<model::NodeId> failed_;             // to be tried again
  // By the steady clock:
  Duration next_scan_{};  // start of the next scan
  Duration retry_{};      // when failed ones are tried again
  // Wall-clock time at the zero of the steady clock, and since when it is trusted.
  Time last_clock_zero_ = clock_zero();
  Duration trusted_since_{};
};

}  // namespace lockstep::server
