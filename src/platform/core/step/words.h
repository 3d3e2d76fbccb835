// The words in which step() gives its reasons: one line each, for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "platform/core/model/attempt.h"
#include "platform/core/model/state.h"

namespace lockstep {

// "30s", "1m", "2h 30m"; for bounds, which are mostly whole.
std::string short_text(Duration duration);
// "node 1 on host b".
std::string place_of(const Node& node);
// "rank 3 on host b".
std::string place_of(const Node& node, const Rank& rank);
// "signal 9 (SIGKILL)".
std::string signal_name(int number);
// "SIGKILL", or "signal 40".
std::string short_signal_name(int number);
// For operators: what another store has started here and what to do about it, a line for each run.
// "1 run of another store goes on here: act/1 (2 devices on vm-0); ..."
std::vector<std::string> words_on_orphans(const State& state);
// Words from outside made fit for a line of text: no line ends, no more than 300 bytes.
std::string one_line(std::string_view words);

}  // namespace lockstep
