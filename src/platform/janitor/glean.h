// Glean: takes what a killed agent's spool still holds into the store, a batch at a time. What the
// daemon had stored already is skipped by its sequence, so that each item counts once, however
// often this begins anew.
#pragma once

#include <filesystem>
#include <future>
#include <optional>
#include <utility>

#include "platform/insight/insight.h"
#include "platform/spool/left_spool.h"

namespace lockstep {

class Glean {
 public:
  // The file is looked through by a thread of its own, since it may have hundreds of MiB.
  Glean(insight::Insight& insight, NodeId node, std::filesystem::path spool)
      : insight_(insight), node_(std::move(node)), file_(std::move(spool)) {}
  Glean(const Glean&) = delete;  // the thread writes to it
  Glean& operator=(const Glean&) = delete;

  // Some milliseconds of work at most. True: all of it is stored. After an error begin anew.
  Result<bool> slice();

 private:
  Result<bool> open();
  Result<bool> store_batch();

  insight::Insight& insight_;
  NodeId node_;
  std::filesystem::path file_;
  bool ready_ = false;
  std::optional<Result<LeftSpool>> opened_;  // the thread's until opening_ is ready
  std::future<void> opening_;                // last but the numbers: ends before what it writes to
  std::int64_t stored_ = 0;                  // up to this sequence
};

}  // namespace lockstep
