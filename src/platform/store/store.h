// Store: the durable rows of the controller.
#pragma once

#include <span>

#include "base/result.h"
#include "platform/core/model/state.h"

namespace lockstep::store {

class Store {
 public:
  virtual ~Store() = default;

  // All rows; the map is not stored and stays empty.
  virtual Result<model::State> load() = 0;
  // All of the rows or none of them. Once it has returned, they survive a crash of the daemon.
  virtual Result<void> commit(std::span<const model::Change> changes) = 0;
  // Fails if a commit would fail now: it writes, but changes nothing.
  virtual Result<void> check_writable() = 0;
};

}  // namespace lockstep::store
