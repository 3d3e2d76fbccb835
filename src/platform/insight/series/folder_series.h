// The series store in a folder, log and segments beside each other.
//
//   auto store = TRY(open_folder_series(home / "series"));
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "platform/insight/series/blobs.h"
#include "platform/insight/series/series_store.h"

namespace lockstep::insight {

struct SeriesLimits {
  std::size_t series = 1'000'000;            // of a run
  Bytes seal = 64_MiB;                       // of open points: then they are sealed
  Bytes memory = 256_MiB;                    // of open points: then append() waits
  Duration wait = std::chrono::seconds(10);  // at most
  Duration sync = std::chrono::seconds(1);
  Bytes merged = 256_MiB;  // segments are not merged into a larger one
};

// Replays the log. Code::unavailable if another process has the folder open.
Result<std::unique_ptr<SeriesStore>> open_folder_series(const std::filesystem::path& folder,
                                                        const SeriesLimits& limits = {});

// The same with segments elsewhere; the folder has the log.
Result<std::unique_ptr<SeriesStore>> open_series(const std::filesystem::path& folder,
                                                 std::unique_ptr<Blobs> segments,
                                                 const SeriesLimits& limits = {});

}  // namespace lockstep::insight
