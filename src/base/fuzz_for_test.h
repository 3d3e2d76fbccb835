// Fuzz targets: code that reads untrusted bytes gets bytes of every kind, and must neither crash
// nor access memory that is not its own. A file *_fuzz.cc is a target:
//
//   LS_FUZZ(take_frame, {framed("hello"), ""}) { ... input ... }
//
// In `./dev check fuzz` it is a separate program, driven by libFuzzer with the sanitizers, which is
// guided by the coverage of the tested code. In the tests it is one test that runs the seeds and
// many damaged copies of them, the same in each run.
//
// Seeds are valid inputs, as std::string.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace lockstep::fuzzing {

// The bytes as a parser takes them.
inline std::span<const std::byte> bytes_of(std::string_view input) {
  return std::as_bytes(std::span(input));
}

// One mutation, as from networks, disks and attackers.
inline std::string mutated(std::string input, Random& random) {
  const auto random_offset = [&] {
    return static_cast<std::size_t>(random.below(input.size() + 1));
  };
  const auto byte = [&] { return static_cast<char>(random.below(256)); };
  const auto at = random_offset();
  switch (random.below(6)) {
    case 0:
      return input.substr(0, at);
    case 1:
      return input.insert(at, 1, byte());
    case 2:
      return input.erase(at, random.below(8) + 1);
    case 3:
      return input + input.substr(at);
    case 4:  // a number that is absurd
      return input.replace(at, std::min<std::size_t>(4, input.size() - at), 4, '\xff');
    default:
      if (at < input.size()) input[at] = byte();
      return input;
  }
}

inline constexpr int kMutatedCopies = 400;  // of each seed

template <class Target>
void run_seeds(const std::vector<std::string>& seeds, Target target) {
  for (const std::string& seed : seeds) {
    target(std::string_view(seed));
    Random random(seed.size());
    for (int copy = 0; copy < kMutatedCopies; ++copy) {
      std::string input = seed;
      for (std::uint64_t damages = random.below(4) + 1; damages > 0; --damages)
        input = mutated(std::move(input), random);
      target(std::string_view(input));
    }
  }
}

}  // namespace lockstep::fuzzing

#ifdef LOCKSTEP_FUZZ

#include <filesystem>
#include <fstream>

// Defines libFuzzer's entry point; the last argument is the folder of the initial inputs.
#define LS_FUZZ(name, ...)                                                                 \
  static void name##_fuzz(std::string_view input);                                         \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {      \
    name##_fuzz({reinterpret_cast<const char*>(data), size});                              \
    return 0;                                                                              \
  }                                                                                        \
  extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {                     \
    const std::vector<std::string> seeds = __VA_ARGS__;                                    \
    const std::filesystem::path folder = (*arguments)[*count - 1];                         \
    for (std::size_t i = 0; i < seeds.size(); ++i)                                         \
      std::ofstream(folder / ("seed-" + std::to_string(i)), std::ios::binary) << seeds[i]; \
    return 0;                                                                              \
  }                                                                                        \
  static void name##_fuzz(std::string_view input)

#else

#include <gtest/gtest.h>

#define LS_FUZZ(name, ...)                              \
  static void name##_fuzz(std::string_view input);      \
  TEST(Fuzz, name) {                                    \
    const std::vector<std::string> seeds = __VA_ARGS__; \
    ::lockstep::fuzzing::run_seeds(seeds, name##_fuzz); \
  }                                                     \
  static void name##_fuzz(std::string_view input)

#endif
