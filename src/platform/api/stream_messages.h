// Messages about byte streams to nodes (docs/design/streams.md); see messages.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/record.h"

namespace lockstep::api {

// In the header Upgrade of both calls.
inline constexpr std::string_view kStreamProtocol = "lockstep-stream";

// One of the two.
struct StreamQuery {
  std::optional<int> port = {};
  std::optional<bool> shell = {};

  static constexpr auto fields() {
    return record<StreamQuery>(
        between(1, 65'535,
                field("port", &StreamQuery::port, "a TCP port of the node, at its loopback")),
        field("shell", &StreamQuery::shell, "a shell of the node instead of a port"));
  }
};

// An agent is to open a stream, by a call of its own. It may hear of the same one again.
struct StreamOrder {
  std::string id;
  int port = 0;
  bool shell = false;

  bool operator==(const StreamOrder&) const = default;

  static constexpr auto fields() {
    return record<StreamOrder>(
        required(field("id", &StreamOrder::id, "that of the stream")),
        field("port", &StreamOrder::port, "to which the agent connects; 0: to none"),
        field("shell", &StreamOrder::shell, "the agent starts a shell"));
  }
};

}  // namespace lockstep::api
