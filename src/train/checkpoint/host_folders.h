// HostFolders: which ranks write to the same folder of checkpoints. Ranks share one, or each host
// has one of its own at the same path (docs/design/host-checkpoints.md). The keeper of a folder is
// the lowest rank that writes there: it claims the folder and makes checkpoints visible.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "train/group/comm.h"

namespace lockstep::train {

class HostFolders {
 public:
  // All ranks share a folder.
  HostFolders() = default;
  // Collective. `host`: of this rank; empty on all ranks: they share a folder.
  static Result<HostFolders> gather(const std::string& host, Comm& group);

  bool are_shared() const { return hosts_.empty(); }
  // The rank that keeps the folder to which this rank writes.
  int keeper() const { return keeper_; }
  // The ranks' files that are in other folders than that of this rank.
  std::set<std::string> files_elsewhere() const;

 private:
  std::vector<std::string> hosts_;  // by rank; empty: all share a folder
  int rank_ = 0;
  int keeper_ = 0;
};

}  // namespace lockstep::train
