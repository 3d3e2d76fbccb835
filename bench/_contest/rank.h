// A rank in the contest executes the commands of the coordinator (contestant.py), line by line. All
// contestants in C or C++ share it, so that all are timed and verified in the same way.
//
//   check COLLECTIVE BYTES        answered by "right", or by how the result of a call was wrong
//   run COLLECTIVE BYTES CALLS    by when so many calls began and ended here, after one untimed:
//                                 two numbers, seconds of CLOCK_MONOTONIC; and by a third, where
//                                 it is counted: the bytes that they sent from here to other hosts
//   take WAY                      answered by "taken": from now on calls are carried out that way,
//                                 by these same processes in the same memory. WAY is the name of an
//                                 algorithm, with #ANYTHING behind it for another group that has it
//
// COLLECTIVE is all_reduce, reduce_scatter or all_gather; BYTES are those of its larger side, a
// multiple of 4 * ranks. Between two lines a rank is blocked in read(), so that a contestant whose
// turn it is not costs no CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace lockstep::bench::contest {

[[noreturn]] void exit_with_error(const std::string& reason);

// A contestant as one of ranks() processes. A failure ends the process, by exit_with_error().
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Page-aligned memory of the kind with which this contestant is fastest. It replaces the memory
  // of the last call.
  virtual std::span<float> allocate(std::size_t floats) = 0;

  // For contestants with several algorithms.
  virtual void select_algorithm(const std::string& way) {
    exit_with_error("there is no other way, such as " + way);
  }

  // Sums; every call returns when its result is there.
  virtual void barrier() = 0;
  virtual void all_reduce(std::span<float> buffer) = 0;
  virtual void reduce_scatter(std::span<float> input, std::span<float> output) = 0;
  // The rank()-th block of output is this rank's input.
  virtual void all_gather(std::span<float> output) = 0;

  // The data bytes that calls have sent from this rank to other hosts so far; nothing: not counted.
  virtual std::optional<std::uint64_t> wire_bytes() const { return std::nullopt; }
};

// Serves until the coordinator closes the connection.
void serve(Contestant& contestant, const std::string& socket_path);

inline constexpr std::size_t kPage = 4096;

// Ordinary memory.
struct FreeDeleter {
  void operator()(float* memory) const { std::free(memory); }
};
using PlainMemory = std::unique_ptr<float[], FreeDeleter>;
PlainMemory plain_memory(std::size_t floats);

}  // namespace lockstep::bench::contest
