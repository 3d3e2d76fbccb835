// HostService: calls the daemon for this machine, reports what it is and which nodes it has, and
// starts and ends agents as the daemon orders (docs/design/host-service.md).
//
// One thread waits at the daemon for orders. Another lists the nodes, and reports at once when the
// list changes. Both send complete reports; the numbers in them tell which is newer. A third cleans
// up after nodes.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/rate_limited_log.h"
#include "base/result.h"
#include "platform/api/host_service_messages.h"
#include "platform/client/client.h"
#include "platform/engine/hosts/service_session.h"
#include "platform/engine/local/local_engine.h"
#include "platform/host_service/inventory.h"
#include "platform/host_service/service_home.h"

namespace lockstep::host_service {

class HostService {
 public:
  struct Setup {
    engine::LocalEngine& nodes;  // these two outlive the service
    const Clock& clock;
    Membership membership;
    std::filesystem::path home;  // of the nodes' files
    InventorySources sources;
  };
  // Writes the file by which agents find the daemon.
  static Result<std::unique_ptr<HostService>> open(Setup setup);

  // One call: waits at the daemon for orders, and carries them out.
  Result<void> poll() LS_EXCLUDES(mutex_);
  // One poll after the other; never returns.
  [[noreturn]] void follow_orders();
  // Collects and removes what nodes leave; never returns.
  [[noreturn]] void clean_up();
  // Sends lists and parts of checkpoints that the daemon orders; never returns.
  [[noreturn]] void send_files() LS_EXCLUDES(mutex_);
  // Looks at the nodes and the machine, and reports what has changed. Returns when that may be
  // called again: after some 100 ms with nodes, a second without.
  Duration watch();

 private:
  explicit HostService(Setup setup);
  api::ServiceReport make_report() LS_EXCLUDES(mutex_);
  Result<void> call(client::Client& client, const api::ServiceReport& report, Duration wait);
  Duration poll_wait() LS_EXCLUDES(mutex_);
  void queue_files(const std::vector<api::HostFileOrder>& orders) LS_REQUIRES(mutex_);
  void carry_out(const api::ServiceReport& report, const api::ServiceOrders& orders)
      LS_EXCLUDES(mutex_);
  void look_at_machine() LS_EXCLUDES(mutex_);
  void look_at_shared_folder() LS_EXCLUDES(mutex_);
  bool is_shared_folder_new() LS_EXCLUDES(mutex_);
  void add_nodes(api::ServiceReport& report) LS_EXCLUDES(mutex_);
  void record_call(const Result<void>& called) LS_EXCLUDES(mutex_);
  client::Client new_client() const;
  template <class Route>
  Result<typename Route::Answer> ask(client::Client& client, const Route& route,
                                     const typename Route::Request& request) const;

  const Setup setup_;
  client::Client polls_;    // of the thread that follows orders
  client::Client reports_;  // of the thread that watches
  Deadline next_look_ = Deadline::after(Duration(0));
  std::string reported_;  // the nodes of the last report of that thread

  Mutex mutex_;  // guards what follows
  engine::ServiceSession session_ LS_GUARDED_BY(mutex_);
  Duration poll_wait_ LS_GUARDED_BY(mutex_){};
  std::optional<api::SharedFolder> asked_for_ LS_GUARDED_BY(mutex_);  // to be checked
  std::set<model::NodeName> ordered_ LS_GUARDED_BY(mutex_);           // since the last cleanup
  std::deque<api::HostFileOrder> file_orders_ LS_GUARDED_BY(mutex_);
  std::int64_t last_file_order_ LS_GUARDED_BY(mutex_) = 0;  // that was queued
  Condition files_ordered_;
  std::optional<api::HostInventory> inventory_ LS_GUARDED_BY(mutex_);
  std::vector<api::HostProblem> problems_ LS_GUARDED_BY(mutex_);
  std::optional<api::SharedFolder> shared_ LS_GUARDED_BY(mutex_);  // as this host sees it
  RateLimitedLog problem_log_ LS_GUARDED_BY(mutex_);
};

}  // namespace lockstep::host_service
