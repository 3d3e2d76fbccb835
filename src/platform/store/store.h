// Store: the durable rows of the controller.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/ended_runs.h"
#include "platform/core/model/state.h"

namespace lockstep::store {

class Store {
 public:
  virtual ~Store() = default;

  // All rows but those of ended runs after which no open run is to start; the usage and the numbers
  // of all runs. The map is not stored and stays empty.
  virtual Result<model::State> load() = 0;
  // The rows of a run, ended or not; none if the store has no such run.
  virtual Result<std::optional<model::RunRows>> find_run(const model::RunId& run) = 0;
  // The run that was submitted with this request id.
  virtual Result<std::optional<model::RunId>> find_request(const std::string& request_id) = 0;
  // Newest first.
  virtual Result<std::vector<model::Run>> list_runs(const model::RunFilter& filter) = 0;
  // All of the rows or none of them. Once it has returned, they survive a crash of the daemon.
  virtual Result<void> commit(std::span<const model::Change> changes) = 0;
  // Removes the rows of an ended run for good. Its number is never given again, its use of devices
  // still counts for its project, and the janitor learns that its files are to go. `also` is
  // committed with it.
  virtual Result<void> remove_run(const model::RunRows& run,
                                  std::span<const model::Change> also) = 0;
  // Fails if a commit would fail now: it writes, but changes nothing.
  virtual Result<void> check_writable() = 0;
};

}  // namespace lockstep::store
