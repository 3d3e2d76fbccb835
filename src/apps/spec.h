// From what a user typed, or wrote in a file, to what is submitted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/run.h"

namespace lockstep {

struct RunFlags {
  std::vector<std::string> words;  // the command, or one file
  std::optional<std::string> project, name, timeout, hang_after, checkpoint_folder, on_failure;
  std::optional<std::string> run_class, not_before;
  std::optional<std::string> memory, device_kind, device_memory;
  std::optional<int> nodes, devices, retries, rank_loss_retries, priority, cores;
  bool stays = false;
  std::vector<std::string> after;
  std::vector<std::string> env;  // NAME=VALUE, or NAME
};

// The file, if one is given, with the flags' values over its own, and of the submitter's
// environment what a program needs to find itself at home. Checked as far as it can be here:
// errors name the file's line or the flag, and that what the command names is no program.
Result<RunSpec> spec_of(const RunFlags& flags);

}  // namespace lockstep
