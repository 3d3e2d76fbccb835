// TraceFilter selects the lines of a trace that concern one run: its own lines, and those of the
// daemon, the hosts and the network.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::sim {

class TraceFilter {
 public:
  // "demo/3"; empty: every line is shown.
  explicit TraceFilter(std::string run) : run_(std::move(run)) {}
  bool shows(std::string_view line) const;

 private:
  bool names_the_run(std::string_view line) const;

  const std::string run_;
};

}  // namespace lockstep::sim
