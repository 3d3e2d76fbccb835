// LimitSignal: the signal that the ranks of a run get some time before its time limit, so that they
// can save. Its text is that of Slurm's --signal, with a unit: USR1@5m.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::model {

struct LimitSignal {
  int number = 0;     // of the signal
  Duration before{};  // the limit; more than 0

  bool operator==(const LimitSignal&) const = default;
};

// "USR1@5m", "SIGTERM@90s" or "INT"; without a time it is a minute.
Result<LimitSignal> parse_limit_signal(std::string_view text);

}  // namespace lockstep::model
