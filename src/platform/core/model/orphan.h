// Orphans: nodes that run here but that the store does not know, because another store, or a newer
// copy of this one, started them. (Kubernetes calls a Pod orphaned that has lost its owner.)
//
// Each daemon learns of them from its engine's list; only stop requests are stored. Their devices
// count as allocated. They never end unless an operator asks for it. An operator can also make the
// store adopt them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/host_devices.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/run.h"
#include "text/record.h"

namespace lockstep::model {

// The data with which another store adopts an attempt. A copy is in the folder of each node.
struct AttemptRecord {
  RunSpec spec;
  Origin origin;
  std::string run_generation;
  Time submitted{};
  Time queued{};
  Time created{};        // of the attempt
  Duration time_used{};  // as in Run, when the attempt was created; likewise the values below
  std::vector<HostDevices> devices;  // of all its nodes, in order
  int user_exits = 0;
  int losses = 0;
  int moves = 0;
  int fair_share_used = 100;
  int priority = 0;

  bool operator==(const AttemptRecord&) const = default;

  static constexpr auto fields() {
    return record<AttemptRecord>(
        required(field("spec", &AttemptRecord::spec, "what was asked for")),
        field("origin", &AttemptRecord::origin, "where it came from"),
        field("run_generation", &AttemptRecord::run_generation,
              "of the store that the run was submitted to"),
        field("submitted", &AttemptRecord::submitted, "when the run was submitted"),
        field("queued", &AttemptRecord::queued, "since when it stood in the queue"),
        field("created", &AttemptRecord::created, "when the attempt was made"),
        field("charged", &AttemptRecord::time_used, "running time of the attempts before"),
        required(field("devices", &AttemptRecord::devices, "the devices of its nodes, in order")),
        field("user_exits", &AttemptRecord::user_exits, "retries used of spec.retries"),
        field("losses", &AttemptRecord::losses, "retries used of spec.rank_loss_retries"),
        field("moves", &AttemptRecord::moves, "how often the run was moved"),
        field("share", &AttemptRecord::fair_share_used, "of its project when it came, in percent"),
        field("priority", &AttemptRecord::priority, "among the runs of its project"));
  }
};

// The running time that the attempt could have when it was created.
inline Duration time_left(const AttemptRecord& record) {
  return record.spec.timeout.value_or(timeout_default(record.spec.run_class, {})) -
         record.time_used;
}

struct Orphan {
  NodeName id;
  bool has_agent = true;
  // None: the record cannot be read, or the node is older than such records.
  std::optional<AttemptRecord> attempt_record{};
  HostDevices devices{};                    // an empty host: the devices are not known
  std::string engine{};                     // whose list has it; empty: the daemon's only one
  Time expected_end{};                      // by its time limit, as far as is known
  bool ended = false;                       // its agent reports that all its ranks have ended
  std::optional<Time> stop_requested_at{};  // an operator asked to stop it
  std::optional<Time> kill_requested_at{};  // when the last forced kill was requested
  bool terminated = false;                  // no process is left: the row is removed

  bool operator==(const Orphan&) const = default;
};

// The id under which the devices of another store's run are allocated: "orphan demo/42". No project
// name has a space.
RunId orphan_allocation_id(const RunId& run);

}  // namespace lockstep::model
