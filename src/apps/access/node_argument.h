// The node of a run that a command connects to, and streams to it.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "base/os/fd.h"
#include "base/result.h"
#include "platform/api/stream_messages.h"
#include "platform/core/model/ids.h"

namespace lockstep::cli {

struct NodeOfRun {
  model::RunId run;
  int index = 0;  // in the newest attempt

  std::string name() const;  // demo/42/1
};

// demo/42 or 42: the first node; demo/42/1 or 42/1: the second. A project whose name is a number
// needs all three parts.
Result<NodeOfRun> node_argument(const std::string& words);
CLI::Option* add_node_argument(CLI::App& command, std::string& words);

}  // namespace lockstep::cli
