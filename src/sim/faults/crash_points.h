// CrashPoints: the state of the daemon (alive or crashed), and the moments of its crashes.
//
// Our code throws nothing, so a call into the controller cannot be interrupted. Instead, from the
// moment of the crash the store and the engine refuse every call, so that nothing the controller
// still does has an effect. When its call returns, the daemon's owner drops it and opens a new one.
//
// The moments at which a crash makes a difference are boundaries: before a commit, after it, before
// each effect and after it. They are counted, so that a test can crash the daemon at each.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/sim_context.h"

namespace lockstep::sim {

class CrashPoints {
 public:
  explicit CrashPoints(SimContext& context) : context_(context) {}

  bool alive() const { return alive_; }
  // Passes a boundary. False if the daemon is dead, also if it dies at this boundary.
  bool pass(std::string_view boundary) {
    if (!alive_) return false;
    if (crash_boundary_ && passed_ >= *crash_boundary_) crash(boundary);
    ++passed_;
    return alive_;
  }
  void crash(std::string_view where) {
    context_.trace("daemon", "DIES {} (boundary {})", where, passed_);
    alive_ = false;
    crash_boundary_.reset();
    ++crashes_;
  }
  void restart() { alive_ = true; }

  // Boundaries passed since the simulation began. crash_at() crashes the daemon at the boundary
  // with this number, counted from 0.
  std::int64_t passed() const { return passed_; }
  void crash_at(std::int64_t boundary) { crash_boundary_ = boundary; }
  void cancel_crash() { crash_boundary_.reset(); }
  int crashes() const { return crashes_; }

 private:
  SimContext& context_;
  bool alive_ = false;
  std::int64_t passed_ = 0;
  int crashes_ = 0;
  std::optional<std::int64_t> crash_boundary_;
};

}  // namespace lockstep::sim
