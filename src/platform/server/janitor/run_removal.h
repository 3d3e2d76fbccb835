// RunRemoval: removes what is left of a removed run: everything that was reported about it, the
// sockets of its nodes, and its folders below the daemon's, with the checkpoints in them. It may be
// repeated after an interruption at any point.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/insight/insight.h"
#include "platform/store/cleanup_tables.h"

namespace lockstep::server {

class RunRemoval {
 public:
  // The references must outlive it.
  RunRemoval(insight::Insight& insight, std::filesystem::path home,
             const std::function<std::string(const model::NodeName&)>& token_of,
             store::RemovedRun run)
      : insight_(insight), home_(std::move(home)), token_of_(token_of), run_(std::move(run)) {}
  // Ends the thread; the next removal continues.
  ~RunRemoval() { *stopped_ = true; }
  RunRemoval(const RunRemoval&) = delete;
  RunRemoval& operator=(const RunRemoval&) = delete;

  const model::RunId& id() const { return run_.id; }
  enum class Step { worked, waits, done };
  // A few milliseconds of work; a thread removes the folders, which may have many files.
  Result<Step> work();

 private:
  std::vector<std::filesystem::path> folders() const;
  Result<void> remove_sockets() const;

  insight::Insight& insight_;
  const std::filesystem::path home_;
  const std::function<std::string(const model::NodeName&)>& token_of_;
  const store::RemovedRun run_;
  std::unique_ptr<std::atomic<bool>> stopped_ = std::make_unique<std::atomic<bool>>(false);
  std::future<Result<void>> removing_;  // destroyed, and so waited for, before `stopped_`
};

}  // namespace lockstep::server
