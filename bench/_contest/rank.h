// A rank in the contest: does what the coordinator (contestant.py) says, line by line, and is the
// same for all who communicate in C or C++, so that all are timed and verified alike.
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

namespace lockstep::contest {

[[noreturn]] void die(const std::string& reason);

// Who communicates, as one of ranks() processes. What fails ends the process, by die().
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Page-aligned memory of the kind that this contestant communicates best. It replaces what the
  // last call gave.
  virtual std::span<float> allocate(std::size_t floats) = 0;

  // Whose calls can be carried out in several ways.
  virtual void take(const std::string& way) { die("there is no other way, such as " + way); }

  // Sums; every call returns when its result is there.
  virtual void barrier() = 0;
  virtual void all_reduce(std::span<float> buffer) = 0;
  virtual void reduce_scatter(std::span<float> input, std::span<float> output) = 0;
  // The rank()-th block of output is this rank's input.
  virtual void all_gather(std::span<float> output) = 0;

  // Of data that calls have sent from this rank to other hosts so far; nothing: it is not counted.
  virtual std::optional<std::uint64_t> wire_bytes() const { return std::nullopt; }
};

// Until the coordinator hangs up.
void serve(Contestant& contestant, const std::string& socket_path);

inline constexpr std::size_t kPage = 4096;

// Memory as any program has it.
struct Free {
  void operator()(float* memory) const { std::free(memory); }
};
using PlainMemory = std::unique_ptr<float[], Free>;
PlainMemory plain_memory(std::size_t floats);

}  // namespace lockstep::contest
