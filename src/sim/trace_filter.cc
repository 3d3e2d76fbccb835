#include "sim/trace_filter.h"

#include <algorithm>
#include <array>

namespace lockstep::sim {
namespace {

// The component of a line, after the time: "0:00:01.000  daemon  ...".
std::string_view source_of(std::string_view line) {
  line.remove_prefix(std::min(line.find(' '), line.size()));
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return line.substr(0, line.find(' '));
}

bool affects_all_runs(std::string_view who) {
  constexpr std::array<std::string_view, 5> kAll = {"daemon", "fault", "faults", "operators",
                                                    "VIOLATION"};
  return std::ranges::find(kAll, who) != kAll.end();
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool TraceFilter::shows(std::string_view line) const {
  return run_.empty() || affects_all_runs(source_of(line)) || names_the_run(line);
}

// "demo/3.1/0" and "3f9c0a5e7d21b864:demo/3.1" are of demo/3, "demo/31" is not.
bool TraceFilter::names_the_run(std::string_view line) const {
  for (auto at = line.find(run_); at != std::string_view::npos; at = line.find(run_, at + 1)) {
    const auto end = at + run_.size();
    const bool begins = at == 0 || line[at - 1] == ' ' || line[at - 1] == ':';
    if (begins && (end == line.size() || !is_digit(line[end]))) return true;
  }
  return false;
}

}  // namespace lockstep::sim
