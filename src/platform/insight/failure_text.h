// FailureText: the error in the last lines of a rank that failed, in the form that its language or
// library prints: a traceback of Python, the box of torchrun, messages of NCCL's watchdog, of CUDA,
// of an uncaught C++ exception, of an assertion, of a crash. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::insight {

struct FailureText {
  std::string summary;             // one line: "ValueError: the loss is not finite"
  std::vector<std::string> lines;  // the whole message, such as the traceback; at most 60
};

// The lines of one rank, oldest first. None: no error was recognized.
std::optional<FailureText> find_failure(std::span<const std::string> lines);

}  // namespace lockstep::insight
