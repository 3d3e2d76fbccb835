// RollCall: whether the ranks of a shard group do the same. Ranks whose control flow differs would
// gather one unit on one rank and another on the next: with wrong numbers, or none for ever. So in
// the first step each act is preceded by a small exchange of what it is. In later steps acts are
// only noted, and at the step's end, before anybody's optimizer moves, the ranks compare a sum of
// what each of them did. Where ranks differ all of them are told who did what.
#pragma once

#include <cstdint>
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

  // In the first step, waits for the group's other ranks.
  Result<void> announce(Act act, int unit);
  // The step is over; waits for the others.
  Result<void> finish();

 private:
  // The acts of a step that can be named; a training without steps has no end of them.
  static constexpr std::size_t kKept = 65'536;

  Result<void> find_difference();
  std::string words(std::int64_t told) const;
  Error error_of(const std::vector<std::int64_t>& told) const;

  Comm group_;
  std::vector<int> ranks_;  // the group's, in the world
  std::vector<std::string> names_;
  bool first_step_ = true;
  std::vector<std::int64_t> acts_;  // of this step
  std::uint64_t sum_ = 0;           // of all of them
};

}  // namespace lockstep
