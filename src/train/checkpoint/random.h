// The state of torch's default random generator for the CPU, which dropout draws from. Each rank
// has its own; together they are one tensor with a row a rank.
//
// A training that goes on with as many ranks as before draws what it would have drawn. With another
// number of ranks there is no such thing: then every rank's generator is seeded anew from the
// data's seed, the step and the rank, so that going on twice gives the same twice.
#pragma once

#include <cstdint>
#include <string_view>

#include "train/owned.h"

namespace lockstep {

constexpr std::string_view kRandomName = "random/cpu";

// This rank's row, copied.
OwnedTensor random_state(int rank, int ranks);
// The generator goes on from this row.
void set_random_state(const OwnedTensor& row);
// The same seed on every call with the same arguments, another for each rank.
void seed_random(std::uint64_t seed, std::int64_t step, int rank);

}  // namespace lockstep
