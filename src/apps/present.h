// How runs look in the terminal: tables and details, as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/api/messages.h"
#include "text/table.h"

namespace lockstep {

// For how long a running run has made no progress, once that is a minute.
std::optional<Duration> without_progress(const api::RunView& run, Time now);
// "2 nodes x 1 device".
std::string size_text(const RunSpec& spec);
// As wide as the terminal, if there is one.
std::string in_terminal(const Table& table);
std::string runs_table(const std::vector<api::RunView>& runs);
std::string run_details(const api::RunView& run);
std::string metrics_table(const std::vector<api::Series>& series);

}  // namespace lockstep
