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
// "running", "failed: rank 3 exited with code 1"; of a run that ends or starts again, why.
std::string state_text(const api::RunView& run);
// "2 nodes x 1 device".
std::string size_text(const RunSpec& spec);
// As wide as the terminal, if there is one.
std::string in_terminal(const Table& table);
// What goes wrong in the daemon, a line each before what is asked for; empty: nothing.
std::string trouble_lines(const std::vector<std::string>& troubles);
std::string runs_table(const std::vector<api::RunView>& runs);
std::string run_details(const api::RunView& run);
std::string metrics_table(const std::vector<api::Series>& series);

// To standard error: what operators should know, a line each.
void print_notices(const std::vector<std::string>& notices);

}  // namespace lockstep
