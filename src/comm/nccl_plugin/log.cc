#include "comm/nccl_plugin/log.h"

#include <atomic>

namespace lockstep::comm::nccl {
namespace {

std::atomic<Logger> current_logger = nullptr;

void write(LogLevel level, const std::string& message) {
  if (const auto logger = current_logger.load())
    logger(level, kLogInitAndNetwork, "nccl_plugin", 0, "NET/Lockstep: %s", message.c_str());
}

}  // namespace

void set_logger(Logger logger) { current_logger = logger; }
void log_warning(const std::string& message) { write(LogLevel::warn, message); }
void log_info(const std::string& message) { write(LogLevel::info, message); }

}  // namespace lockstep::comm::nccl
