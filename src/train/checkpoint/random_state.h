// The state of torch's default random generator for the CPU, which dropout draws from. Each rank
// has its own; together they are one tensor with a row a rank.
//
// A training that resumes with as many ranks as before draws the same numbers as without the
// interruption. With another number of ranks that is impossible: then every rank's generator is
// seeded from the data's seed, the step and the rank, so that two resumes give the same result.
#pragma once

#include <cstdint>
#include <string_view>

#include "train/engine/owned_tensor.h"

namespace lockstep::train {

constexpr std::string_view kRandomName = "random/cpu";

// This rank's row, copied.
OwnedTensor random_state(int rank, int ranks);
// Sets the generator to this row.
void set_random_state(const OwnedTensor& row);
// The same seed on every call with the same arguments; different for each rank.
void seed_random(std::uint64_t seed, std::int64_t step, int rank);

}  // namespace lockstep::train
