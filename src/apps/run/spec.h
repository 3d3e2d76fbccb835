// Builds the spec of a submission from arguments or a file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/run.h"

namespace lockstep::cli {

struct RunFlags {
  std::vector<std::string> arguments;  // the command, or one file
  std::optional<std::string> project, name, timeout, hang_after, checkpoint_folder, on_failure;
  std::optional<std::string> run_class, not_before;
  std::optional<std::string> memory, device_kind, device_memory;
  std::optional<int> nodes, devices, retries, rank_loss_retries, priority, cores;
  bool stays = false;
  std::vector<std::string> after;
  std::vector<std::string> env;  // NAME=VALUE, or NAME
};

// The spec of the file, if one is given, with the flags' values over its own, and with the
// submitter's environment variables that a program needs. Checked as far as possible here: errors
// name the file's line or the flag, or say that the command names no program.
Result<model::RunSpec> spec_of(const RunFlags& flags);

}  // namespace lockstep::cli
