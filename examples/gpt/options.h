// The command line: gpt train ..., gpt sample ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>

#include <lockstep/train.h>

#include "model.h"

namespace gpt {

// The defaults are for four ranks on two cores: about a minute and a half.
struct TrainOptions {
  std::filesystem::path data;
  std::int64_t steps = 1000;
  std::int64_t batch = 16;       // windows a step, over all ranks
  std::int64_t micro_steps = 1;  // each rank's share is computed in so many parts
  double learning_rate = 2e-3;   // the peak
  std::int64_t warmup = 60;      // steps up to it
  double weight_decay = 0.1;
  double clip_norm = 1.0;
  std::uint64_t seed = 1;  // of the data's order and the initial weights
  ModelOptions model;
  std::int64_t evaluate_every = 100;
  std::int64_t checkpoint_every = 0;  // steps; 0: by time, from the stall and the number of ranks
  std::filesystem::path checkpoints;  // LOCKSTEP_CHECKPOINT_DIR if not given; empty: none
  lockstep::Backend backend = lockstep::Backend::lockstep;
  std::string policy = "ddp";
  bool rescale_batch = false;  // when ranks are lost and the others continue
};

struct SampleOptions {
  std::filesystem::path checkpoints;
  std::int64_t bytes = 400;
  std::string prompt = "\n";
  double temperature = 0.8;
  std::uint64_t seed = 1;
};

using Options = std::variant<TrainOptions, SampleOptions>;

// Prints help or the error itself; then returns the exit code.
std::variant<Options, int> parse_options(int argc, char** argv);

}  // namespace gpt
