// Text of the reasons that step() gives: one line each, for users.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "platform/core/model/attempt.h"
#include "platform/core/model/state.h"

namespace lockstep::step {

// "30s", "1m", "2h 30m"; for bounds, which are mostly whole units.
std::string short_text(Duration duration);
// "2m 5s", without fractions; for times that went by.
std::string whole_seconds_text(Duration duration);
// "node 1 on host b"; "node 1" before its host is known.
std::string describe_location(const model::Node& node);
// "rank 3 on host b".
std::string describe_location(const model::Node& node, const model::Rank& rank);
// "signal 9 (SIGKILL)".
std::string signal_name(int number);
// "SIGKILL", or "signal 40".
std::string short_signal_name(int number);
// For operators: what another store has started here and which commands handle it, a line for each
// run. "1 run of another store is active here: act/1 (2 devices on vm-0); ..."
std::vector<std::string> describe_orphans(const model::State& state);
// Makes text from outside fit into a line: no line ends, at most 300 bytes.
std::string one_line(std::string_view input);

}  // namespace lockstep::step
