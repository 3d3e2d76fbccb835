// Runs in the terminal: tables and details, as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/api/finding_messages.h"
#include "platform/api/messages.h"
#include "text/display/table.h"

namespace lockstep::cli {

// The time since the last progress of a running run, if it is a minute or more.
std::optional<Duration> without_progress(const api::RunView& run, Time now);
// The node that has been unreachable longest, and how many are; empty: none is.
std::string unreachable_text(const api::RunView& run, Time now);
// "running", "failed: rank 3 exited with code 1"; with the reason if a run ends or starts again.
std::string state_text(const api::RunView& run);
// "2 nodes x 1 device".
std::string size_text(const model::RunSpec& spec);
// Shortens the table to the width of the terminal, if there is one.
std::string fit_to_terminal(const Table& table);
// Errors inside the daemon, one line each, printed before the requested output; empty if there are
// none.
std::string trouble_lines(const std::vector<std::string>& problems);
// `sort`: the metric or setting by which they are sorted, shown in place of the loss.
std::string runs_table(const api::RunList& list, const std::optional<std::string>& sort);
// "rank 5 failed first on host b: ValueError: ...".
std::string first_error_line(const api::RankError& error);
// The first error of the last attempt and its message, each line with its end; empty: the run did
// not fail, or no error was found.
std::string failure_lines(const api::RunView& run);
// "straggler since 12:04:11: rank 5, device 1, host b: its steps take 2.1 times ..."
std::string finding_text(const api::FindingView& finding);
std::string run_details(const api::RunView& run);

// Prints notices for operators to standard error, a line each.
void print_notices(const std::vector<std::string>& notices);

}  // namespace lockstep::cli
