// RollCall: whether the ranks of a shard group are about to do the same. Ranks whose control flow
// differs would gather one unit on one rank and another on the next: with wrong numbers, or none
// for ever. So in the first step each act is preceded by a small exchange of what it is, and where
// ranks differ all of them know who does what. Later steps repeat the first and are not asked.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "train/mesh.h"

namespace lockstep {

class RollCall {
 public:
  enum class Act { gather, reduce, finish };

  // names: of the units, for the error. Nobody is asked in a group of one.
  RollCall(const Mesh& mesh, std::vector<std::string> names);

  // Waits for the group's other ranks. unit is looked at for gather and reduce only.
  Result<void> announce(Act act, int unit = 0);
  void end() { over_ = true; }

 private:
  std::string words(std::int64_t told) const;
  Error error_of(const std::vector<std::int64_t>& told) const;

  Comm group_;
  int first_rank_;  // in the world, of the group
  std::vector<std::string> names_;
  bool over_;
};

}  // namespace lockstep
