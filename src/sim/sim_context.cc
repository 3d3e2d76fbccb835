#include "sim/sim_context.h"

namespace lockstep::sim {
namespace {

// "1:02:03.456" since the simulation began.
std::string stamp(Duration since) {
  const auto ms = since.count() / 1000;
  return format("{}:{:02}:{:02}.{:03}", ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60,
                ms % 1000);
}

}  // namespace

void SimContext::write(std::string_view who, std::string_view what) {
  sink_(format("{}  {:<18} {}", stamp(timeline.now()), who, what));
}

void SimContext::report_violation(std::string what) {
  if (violation_) return;
  trace("VIOLATION", "{}", what);
  violation_ = format("at {}: {}", stamp(timeline.now()), what);
}

}  // namespace lockstep::sim
