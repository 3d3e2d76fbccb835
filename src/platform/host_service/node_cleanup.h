// NodeCleanup: collects and removes the files that the nodes of this host leave. The daemon gets
// the items that a killed agent could not deliver. Then spool, secret and sockets are removed, and
// the launch file as the last, which marks the node as not cleaned up. All other files go when the
// daemon says that their run is old or removed. Each step may be repeated.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "platform/api/host_service_messages.h"
#include "platform/core/model/ids.h"

namespace lockstep::host_service {

class NodeCleanup {
 public:
  struct Setup {
    std::filesystem::path home;
    std::function<std::string(const model::NodeName&)> token_of;  // for socket names
    // Calls of the daemon.
    std::function<Result<api::CollectAnswer>(const api::CollectRequest&)> collect;
    std::function<Result<api::RunFolders>(const api::RunFolders&)> kept_files;
  };
  explicit NodeCleanup(Setup setup) : setup_(std::move(setup)) {}

  // Cleans up after nodes that were present or ordered and are not present now, and, once an hour,
  // after all that the folder has. A failed step is repeated some seconds later.
  void work(const std::set<model::NodeName>& present,
            const std::set<model::NodeName>& ordered = {});

 private:
  void find_nodes();
  Result<void> clean_up(const model::NodeName& node);
  Result<void> deliver_spool(const model::NodeName& node, const std::filesystem::path& spool);
  Result<void> remove_old_files();
  Result<void> remove(const api::RunFolder& folder);
  void log_failure(const std::string& what, const Result<void>& done);

  const Setup setup_;
  std::set<model::NodeName> present_;  // at the last call
  std::set<model::NodeName> ended_;    // to be cleaned up
  Deadline next_scan_ = Deadline::after(Duration(0));
  Deadline retry_ = Deadline::after(Duration(0));
};

}  // namespace lockstep::host_service
