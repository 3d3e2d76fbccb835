// Request: what NCCL tests for completion: one message to send, or the messages of a grouped
// receive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "comm/nccl_plugin/endpoint.h"

namespace lockstep::comm::nccl {

inline constexpr int kGroupLimit = 8;  // receives of one request

class Connection;

struct Request {
  Connection* connection = nullptr;  // null: closed
  bool in_use = false;
  bool sends = false;
  bool flushes = false;  // is no message
  int count = 0;
  int unended = 0;  // messages, of count
  std::array<Operation, kGroupLimit> operations{};
  std::array<Message, kGroupLimit> messages{};
  std::array<std::size_t, kGroupLimit> bytes{};  // of the messages that have ended
  std::optional<Error> failure;

  bool has_posted() const {
    for (int i = 0; i < count; ++i)
      if (operations[static_cast<std::size_t>(i)].posted &&
          !operations[static_cast<std::size_t>(i)].ended)
        return true;
    return false;
  }
};

}  // namespace lockstep::comm::nccl
