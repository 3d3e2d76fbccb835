// CheckpointRelay: agents of an attempt ask from which checkpoint it goes on, and get its files
// from the hosts that have them (docs/design/host-checkpoints.md). On the daemon's thread; it keeps
// no file.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "platform/core/model/run.h"
#include "platform/server/checkpoints/checkpoint_choice.h"
#include "platform/server/checkpoints/host_file_orders.h"
#include "platform/server/route_call.h"

namespace lockstep::server {

// The facts about the run and the hosts on which it ran.
struct CheckpointSources {
  model::RunId run{};
  std::string generation{};                   // of the run
  std::vector<std::string> hosts{};           // of all its attempts
  std::map<std::string, std::string> away{};  // those of them that do not answer, and why
  std::optional<std::int64_t> reported{};     // the newest step that its ranks reported
};

class CheckpointRelay {
 public:
  // It outlives this.
  explicit CheckpointRelay(HostFileOrders& orders) : orders_(orders) {}

  // All nodes of an attempt get the same answer.
  void choose(const model::AttemptId& attempt, const CheckpointSources& sources,
              const Reply<api::NodeCheckpoint>& reply);
  // From a host whose copy is not known to be damaged. Code::invalid: that is no part of the
  // checkpoint that was chosen for the attempt. Code::corrupt: no such copy is left; the next
  // attempt gets another checkpoint.
  Result<void> send_part(const model::AttemptId& attempt, const api::CheckpointPartRequest& part,
                         const Reply<api::CheckpointPart>& reply);

 private:
  struct Decision {
    model::AttemptId attempt;
    std::string generation;  // of the run
    HostLists known{};
    std::size_t asked = 0;  // hosts that have not answered yet
    std::vector<Reply<api::NodeCheckpoint>> waiting{};
    std::optional<Result<CheckpointChoice>> choice{};
  };
  using SharedDecision = std::shared_ptr<Decision>;  // shared with the orders under way

  using RunKey = std::pair<std::string, std::string>;  // the store's generation, and the run

  void record_damage(Decision& decision, const std::string& name, const std::string& host);
  void order_part(const SharedDecision& decision, const api::CheckpointPartRequest& part,
                  const Reply<api::CheckpointPart>& reply);
  SharedDecision find(const model::AttemptId& attempt) const;
  SharedDecision begin(const model::AttemptId& attempt, const CheckpointSources& sources);
  static void decide_if_all_answered(Decision& decision);

  HostFileOrders& orders_;
  std::deque<SharedDecision> decisions_;  // the last
  // Found since this start of the daemon. Another start finds it again.
  std::map<RunKey, std::set<DamagedFile>> damaged_;
};

}  // namespace lockstep::server
