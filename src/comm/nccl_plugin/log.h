// Messages through NCCL's own logger, so that NCCL_DEBUG shows and filters them.
#pragma once

#include <string>

#include "comm/nccl_plugin/interface.h"

namespace lockstep::comm::nccl {

// From any thread. Without a logger nothing is written.
void set_logger(Logger logger);
void log_warning(const std::string& message);
void log_info(const std::string& message);

}  // namespace lockstep::comm::nccl
