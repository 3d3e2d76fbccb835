// Random: a small, seeded generator whose stream is the same on every machine and library
// (xoshiro256**, Blackman and Vigna 2018, seeded by splitmix64). Not for secrets: those come from
// net/crypto.h.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/hash.h"

namespace lockstep {

class Random {
 public:
  using State = std::array<std::uint64_t, 4>;

  explicit Random(std::uint64_t seed) {
    for (auto& word : state_) {
      word = splitmix64(seed);
      seed += 0x9e3779b97f4a7c15;
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [0, bound); bound > 0. Lemire's multiply-shift; its bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  State state_{};
};

}  // namespace lockstep
