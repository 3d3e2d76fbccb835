// Life: whether the daemon lives, and when it dies.
//
// Our code throws nothing, so a call into the controller cannot be cut off in its middle. Instead,
// from the moment of death the store and the engine refuse everything: what a dead controller still
// does reaches nobody. When its call returns, the daemon's owner drops it and opens a new one.
//
// The moments at which a death makes a difference are boundaries: before a commit, after it, before
// each effect and after it. They are counted, so that a test can have the daemon die at each.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/scene.h"

namespace lockstep::sim {

class Life {
 public:
  explicit Life(Scene& scene) : scene_(scene) {}

  bool alive() const { return alive_; }
  // Passes a boundary; false when the daemon is dead, which it may be from here on.
  bool pass(std::string_view boundary) {
    if (!alive_) return false;
    if (doom_ && passed_ >= *doom_) die(boundary);
    ++passed_;
    return alive_;
  }
  void die(std::string_view where) {
    scene_.tell("daemon", "DIES {} (boundary {})", where, passed_);
    alive_ = false;
    doom_.reset();
    ++deaths_;
  }
  void begin_again() { alive_ = true; }

  // Boundaries passed since the world began; it dies at the one with this number, counted from 0.
  std::int64_t passed() const { return passed_; }
  void doom_at(std::int64_t boundary) { doom_ = boundary; }
  void spare() { doom_.reset(); }
  int deaths() const { return deaths_; }

 private:
  Scene& scene_;
  bool alive_ = false;
  std::int64_t passed_ = 0;
  int deaths_ = 0;
  std::optional<std::int64_t> doom_;
};

}  // namespace lockstep::sim
