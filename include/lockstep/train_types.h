// The plain types of train.h.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

namespace lockstep {

enum class Sync {
  later,  // more micro-steps of this step follow
  now,    // the step's last micro-step
};

// As in Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
};

struct Sgd {
  double momentum = 0;
  double weight_decay = 0;
};

struct OptimizerOptions {
  std::variant<AdamW, Sgd> method = AdamW{};
  double learning_rate = 1e-3;
  // Gradients are scaled down to this global norm (over all parameters and ranks).
  std::optional<double> clip_norm = std::nullopt;
  // After this many skipped steps in a row step() fails, on all ranks.
  int skipped_steps_max = 10;
};

// Samples begin to end of the global batch, computed at once; not empty.
struct MicroBatch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  // The factor of the mean loss over these samples. 0: the rank computes them only to take part in
  // the other ranks' collectives.
  double weight = 1;
  friend bool operator==(const MicroBatch&, const MicroBatch&) = default;
};

struct BatchShape {
  std::int64_t global_batch = 1;     // samples of all ranks
  std::int64_t micro_batch_max = 1;  // the most samples that a rank may compute at once
};

// How the global batch changes when fewer ranks continue.
enum class BatchScaling {
  fixed,     // each rank computes more samples
  rescaled,  // each as many as before; the learning rate falls as the batch does (Goyal et al.,
             // "Accurate, Large Minibatch SGD", 2017)
};

}  // namespace lockstep
