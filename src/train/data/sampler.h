// Sampler: selects the samples of the next step. It walks through the data in a random order that
// visits every sample once an epoch, with one cursor that counts samples of the whole run. So batch
// k is the same set for any number of ranks, and a checkpoint keeps only (seed, cursor).
//
// The order needs no table: a keyed Feistel network is a bijection of [0, 2^2h). Values outside [0,
// samples) are permuted again until they fall inside (cycle walking, Black and Rogaway 2002), less
// than four times on average. The epoch is part of the key.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/result.h"

namespace lockstep::train {

class Sampler {
 public:
  struct State {
    std::uint64_t seed = 0;
    std::int64_t cursor = 0;  // samples given out so far, over all ranks
    friend bool operator==(const State&, const State&) = default;
  };

  // global_batch: samples a step over all ranks.
  static Result<Sampler> create(std::int64_t samples, std::int64_t global_batch,
                                std::uint64_t seed) {
    if (samples < 1) return Error{Code::invalid, "there are no samples to train on"};
    if (global_batch < 1)
      return Error{Code::invalid, format("global batch {}: must be positive", global_batch)};
    return Sampler(samples, global_batch, seed);
  }

  // This rank's equal share of the next batch; every rank's cursor advances by the whole batch.
  Result<std::vector<std::int64_t>> next(int rank, int ranks) {
    if (global_batch_ % ranks != 0)
      return Error{Code::invalid, format("a global batch of {} samples does not divide among {} "
                                         "ranks: choose a multiple",
                                         global_batch_, ranks)};
    const std::int64_t share = global_batch_ / ranks;
    auto indices = peek(rank * share, (rank + 1) * share);
    advance();
    return indices;
  }

  // For parts of unequal size (train/data/batch.h): samples begin to end of the next batch, which
  // stays the next until all ranks advance by the whole of it.
  std::vector<std::int64_t> peek(std::int64_t begin, std::int64_t end) const {
    std::vector<std::int64_t> indices;
    for (std::int64_t i = begin; i < end; ++i) indices.push_back(at(state_.cursor + i));
    return indices;
  }
  void advance() { state_.cursor += global_batch_; }
  // To the batch of a step, counted from 0, of a training whose batch has not changed.
  void seek(std::int64_t step) { state_.cursor = step * global_batch_; }
  std::int64_t global_batch() const { return global_batch_; }
  // From the next batch on; every rank calls it with the same value.
  void set_global_batch(std::int64_t samples) {
    LS_CHECK(samples >= 1);
    global_batch_ = samples;
  }

  const State& state() const { return state_; }
  // Continues from a saved state; the state is the run's, so it includes the seed.
  Result<void> restore(const State& state) {
    if (state.cursor < 0)
      return Error{Code::corrupt, format("sampler cursor {} is negative", state.cursor)};
    state_ = state;
    return {};
  }

 private:
  Sampler(std::int64_t samples, std::int64_t global_batch, std::uint64_t seed)
      : samples_(samples), global_batch_(global_batch), state_{seed, 0} {}

  std::int64_t at(std::int64_t cursor) const {
    const auto epoch = static_cast<std::uint64_t>(cursor / samples_);
    const auto samples = static_cast<std::uint64_t>(samples_);
    auto value = static_cast<std::uint64_t>(cursor % samples_);
    do value = permute(value, splitmix64(state_.seed ^ splitmix64(epoch)));
    while (value >= samples);
    return static_cast<std::int64_t>(value);
  }

  // A bijection of [0, 4^half): four rounds of (left, right) -> (right, left xor f(right)).
  std::uint64_t permute(std::uint64_t value, std::uint64_t key) const {
    const auto half = (std::bit_width(static_cast<std::uint64_t>(samples_ - 1)) + 1) / 2;
    const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
    std::uint64_t left = value >> half;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const auto next = left ^ (splitmix64(right + splitmix64(key + round)) & mask);
      left = right;
      right = next;
    }
    return left << half | right;
  }

  std::int64_t samples_;
  std::int64_t global_batch_;
  State state_;
};

}  // namespace lockstep::train
