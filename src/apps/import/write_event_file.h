// A run as an event file of TensorBoard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/result.h"
#include "platform/client/client.h"

namespace lockstep::cli {

struct WrittenEvents {
  std::int64_t scalars = 0;
  std::int64_t images = 0;
  std::int64_t histograms = 0;
  std::int64_t cut = 0;  // series with more points than an answer has
};

// A metric of several ranks is written as its mean, or as the values of this rank. The file
// replaces that of an earlier call.
Result<WrittenEvents> write_event_file(client::Client& client, const model::RunId& run,
                                       std::optional<int> rank,
                                       const std::filesystem::path& folder);

}  // namespace lockstep::cli
