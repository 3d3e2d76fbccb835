// Work on several hosts at a time, with a line for each step.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::cli {

// Prints a step of this host on standard error; from any thread.
using PrintStep = std::function<void(std::string_view step)>;
// The place of the host in the list.
using HostWork = std::function<Result<void>(std::size_t index, const PrintStep& print_step)>;

// An error if there is none, one twice, or one that ssh would take for an option.
Result<void> check_targets(const std::string& action, const std::vector<std::string>& targets);

// Runs the work for each, at most 16 at a time. The errors are printed as they come, with the
// host's name; returns how many there were.
std::size_t for_each_host(const std::vector<std::string>& targets, const HostWork& work);

}  // namespace lockstep::cli
