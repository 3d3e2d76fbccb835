// Sends a content to the daemon as an artifact of a run, part by part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "platform/api/messages.h"
#include "platform/client/client.h"

namespace lockstep::cli {

// Fills the part from this offset on. Fewer bytes than the part has room for: the content ends.
using ReadPart = std::function<Result<std::size_t>(std::int64_t offset, std::span<std::byte> part)>;

// `path` is checked by the daemon, too. Another content of the same path is replaced.
Result<api::ArtifactView> send_artifact(client::Client& client, const model::RunId& run,
                                        const std::string& path, const ReadPart& read);

// A content in memory.
Result<api::ArtifactView> send_artifact(client::Client& client, const model::RunId& run,
                                        const std::string& path, std::string_view content);

}  // namespace lockstep::cli
