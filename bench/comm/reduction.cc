// How fast n buffers are reduced to one of them, or to all of them as a pushed all-reduce does,
// with each instruction set that the processor has: a JSON line a measurement, in bytes loaded and
// stored. Its limit is the same bytes through memcpy and a block of the L1 cache, in turns with
// ours.
#include "comm/reduction/reduction.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <time.h>

namespace lockstep::bench {
namespace {

constexpr std::size_t kSmall = 64 * 1024, kLarge = 64 * 1024 * 1024;
constexpr std::size_t kBlock = 4096;
constexpr std::size_t kSources[] = {2, 4, 8};
constexpr int kRounds = 7;
constexpr std::size_t kRoundBytes =
    128 * 1024 * 1024;  // at least, so that the clock's steps vanish

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<std::byte, FreeMemory>;

// Zeros, written so that the memory is there.
Buffer buffer_of(std::size_t bytes) {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kBlock, bytes));
  std::memset(memory, 0, bytes);
  return Buffer(memory);
}

struct Case {
  DataType type;
  std::size_t bytes;  // of each buffer
  std::vector<std::byte*> destinations;
  std::vector<const std::byte*> sources;

  std::size_t traffic() const { return bytes * (sources.size() + destinations.size()); }
};

// CPU time of this thread, not wall time: other programs may use the processor meanwhile.
double seconds_worked() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Bytes a second, of one round.
double rate_of(const Case& buffers, const std::function<void()>& pass) {
  const auto passes = std::max<std::size_t>(1, kRoundBytes / buffers.traffic());
  const double begin = seconds_worked();
  for (std::size_t i = 0; i < passes; ++i) pass();
  return static_cast<double>(passes * buffers.traffic()) / (seconds_worked() - begin);
}

// Carries the bytes through a block, without arithmetic.
void copy_through(const Case& buffers) {
  alignas(64) std::byte block[kBlock];
  for (std::size_t at = 0; at < buffers.bytes; at += kBlock) {
    for (const auto* source : buffers.sources) {
      std::memcpy(block, source + at, kBlock);
      asm volatile("" : : "r"(block) : "memory");  // or only the last would be copied
    }
    for (auto* destination : buffers.destinations) std::memcpy(destination + at, block, kBlock);
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const Case& buffers, comm::InstructionSet set) {
  const auto ours = [&] {
    comm::reduce_with(set, buffers.destinations, buffers.sources,
                      buffers.bytes / size_of(buffers.type), {buffers.type, ReduceOp::sum});
  };
  const auto limit = [&] { copy_through(buffers); };
  std::vector<double> our_rates, limit_rates;
  for (int i = 0; i < kRounds; ++i) {
    our_rates.push_back(rate_of(buffers, ours));
    limit_rates.push_back(rate_of(buffers, limit));
  }
  const double our_rate = median(our_rates), limit_rate = median(limit_rates);
  std::printf(
      "{\"bench\": \"reduction\", \"case\": \"sum\", \"type\": \"%s\", \"sources\": %zu, "
      "\"destinations\": %zu, \"bytes\": %zu, \"simd\": \"%s\", \"unit\": \"GB/s\", "
      "\"ours\": %.4g, \"limit\": %.4g, \"of_limit\": %.3g}\n",
      std::string(text(buffers.type)).c_str(), buffers.sources.size(), buffers.destinations.size(),
      buffers.bytes, std::string(text(set)).c_str(), our_rate / 1e9, limit_rate / 1e9,
      our_rate / limit_rate);
  std::fflush(stdout);
}

void measure_all() {
  std::vector<Buffer> memory;
  for (int i = 0; i < 8; ++i) memory.push_back(buffer_of(kLarge));
  for (const auto bytes : {kSmall, kLarge})
    for (const auto type : {DataType::float32, DataType::bfloat16, DataType::float16})
      for (const auto sources : kSources)
        for (const auto destinations : {std::size_t{1}, sources})
          for (const auto set : comm::instruction_sets()) {
            Case buffers = {type, bytes, {}, {}};
            for (std::size_t k = 0; k < sources; ++k) buffers.sources.push_back(memory[k].get());
            for (std::size_t k = 0; k < destinations; ++k)
              buffers.destinations.push_back(memory[k].get());
            measure(buffers, set);
          }
}

}  // namespace
}  // namespace lockstep::bench

int main() { lockstep::bench::measure_all(); }
