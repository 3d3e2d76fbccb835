// Turns: whether those who start stood ahead, or delay nobody who does: the promise of the queue,
// judged without the pass' own means, by counting free devices host by host.
//
// The head is the first of those who go on waiting. What starts behind it must not move the first
// moment at which the head fits, if everybody who holds devices uses up his time-out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/core/model/state.h"

namespace lockstep::sim {

// A run, and what it holds if an attempt of it lives.
struct Claim {
  const Run* run = nullptr;
  const Attempt* attempt = nullptr;
  std::vector<const Node*> nodes{};
  bool starts = false;  // now
};

// What is wrong with who starts, if anything is. Of every open run one claim.
std::optional<std::string> wrong_turn(const Map& map, const std::vector<Claim>& claims);

}  // namespace lockstep::sim
