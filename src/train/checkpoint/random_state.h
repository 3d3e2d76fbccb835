// The states of torch's default random generators, for the CPU and for the model's device, from
// which dropout draws. Each rank has its own; together those of a device are one tensor with a row
// a rank.
//
// A training that resumes with as many ranks as before draws the same numbers as without the
// interruption. With another number of ranks that is impossible: then every rank's generator is
// seeded from the data's seed, the step and the rank, so that two resumes give the same result.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <c10/core/Device.h>

#include "train/engine/owned_tensor.h"

namespace lockstep::train {

// Followed by the type of the device: "random/cpu".
constexpr std::string_view kRandomPrefix = "random/";

// This rank's rows, copied: the CPU's, and the device's if that is another one.
std::vector<OwnedTensor> random_state(at::Device device, int rank, int ranks);
// Sets the generators to these rows of the device's training.
void set_random_state(at::Device device, const std::vector<OwnedTensor>& rows);
// The same seed on every call with the same arguments; different for each rank.
void seed_random(at::Device device, std::uint64_t seed, std::int64_t step, int rank);

}  // namespace lockstep::train
