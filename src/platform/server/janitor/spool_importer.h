// SpoolImporter: imports the spool of a killed agent into the store, a batch at a time. Items that
// the daemon has stored already are skipped by their sequence, so each item counts once, even if
// the import starts again.
#pragma once

#include <filesystem>
#include <future>
#include <optional>
#include <utility>

#include "platform/insight/insight.h"
#include "platform/spool/abandoned_spool.h"

namespace lockstep::server {

class SpoolImporter {
 public:
  // A separate thread scans the file, since it may have hundreds of MiB.
  SpoolImporter(insight::Insight& insight, model::NodeName node, std::filesystem::path spool)
      : insight_(insight), node_(std::move(node)), file_(std::move(spool)) {}
  SpoolImporter(const SpoolImporter&) = delete;  // the thread writes to it
  SpoolImporter& operator=(const SpoolImporter&) = delete;

  // A few milliseconds of work at most. True: all of it is stored. After an error start again.
  Result<bool> import_slice();

 private:
  Result<bool> open_spool();
  Result<bool> store_batch();

  insight::Insight& insight_;
  model::NodeName node_;
  std::filesystem::path file_;
  bool ready_ = false;
  std::optional<Result<spool::AbandonedSpool>>
      spool_;                         // owned by the thread until opening_ is ready
  std::future<void> opening_;         // destroyed before the members that its thread writes
  std::int64_t stored_sequence_ = 0;  // up to this sequence
};

}  // namespace lockstep::server
