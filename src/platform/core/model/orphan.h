// Orphans: nodes that go on here and that the store does not know, since it is another one than
// that which started them, or an older copy of it. (Kubernetes calls a Pod so that has lost its
// owner.)
//
// Each daemon sees them by what its engine lists; only that one is to end is stored. Their devices
// are taken. They are never ended unless an operator asks, and an operator may have the store adopt
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/run.h"
#include "platform/core/model/slice.h"
#include "text/record.h"

namespace lockstep {

// What another store needs to take an attempt up; it lies with each of its nodes.
struct AttemptRecord {
  RunSpec spec;
  Origin origin;
  std::string run_generation;
  Time submitted{};
  Time queued{};
  Time created{};             // the attempt
  Duration charged{};         // as in Run, when the attempt was made; so are the others
  std::vector<Slice> slices;  // of all its nodes, in order
  int user_exits = 0;
  int losses = 0;
  int moves = 0;
  int share = 100;
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
        field("charged", &AttemptRecord::charged, "running time of the attempts before"),
        required(field("slices", &AttemptRecord::slices, "the devices of its nodes, in order")),
        field("user_exits", &AttemptRecord::user_exits, "retries used of spec.retries"),
        field("losses", &AttemptRecord::losses, "retries used of spec.rank_loss_retries"),
        field("moves", &AttemptRecord::moves, "how often the run was moved"),
        field("share", &AttemptRecord::share, "of its project when it came, in percent"),
        field("priority", &AttemptRecord::priority, "among the runs of its project"));
  }
};

struct Orphan {
  NodeName id;
  bool has_agent = true;
  // None: what it was launched with cannot be read, or is from before there were such records.
  std::optional<AttemptRecord> made{};
  Slice slice{};                   // its devices; without a host: they are not known
  Time ends{};                     // by its time-out, as far as is known
  bool ended = false;              // all its ranks have, its agent says
  std::optional<Time> stopping{};  // an operator asked for its end
  std::optional<Time> killed{};    // when its end by force was last asked for
  bool gone = false;               // no process is left: the row goes

  bool operator==(const Orphan&) const = default;
};

// The run of another store, as holders of devices are named: "orphan demo/42". No project has a
// space in its name.
RunId holder_of_orphan(const RunId& run);

}  // namespace lockstep
