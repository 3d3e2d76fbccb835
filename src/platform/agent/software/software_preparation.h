// SoftwarePreparation: the process that prepares a node's software environment, while the agent's
// loop goes on; and what keeps the container of an image open until the agent ends.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/os/fd.h"
#include "base/result.h"
#include "platform/agent/software/preparation.h"
#include "platform/host/launch_spec.h"

namespace lockstep::agent {

class SoftwarePreparation {
 public:
  // Starts it; a failure to do so is its result. `launch` must outlive it and have a software
  // environment. Call it from a thread that lives as long as the agent: the process is a child of
  // the agent that ends with that thread. user: as in preparation.h.
  static std::unique_ptr<SoftwarePreparation> start(const host::LaunchSpec& launch,
                                                    PreparationSetting setting, Environment user);
  // The container ends and is removed.
  ~SoftwarePreparation();

  // To be polled for reading; -1 if there is nothing to wait for.
  int fd() const { return output_.get(); }
  // Reads what there is. The result, once.
  std::optional<Result<PreparedSoftware>> take_result();

 private:
  SoftwarePreparation(const host::LaunchSpec& launch, PreparationSetting setting, Environment user);
  Result<void> open();
  Result<void> open_hold();
  bool read_output();

  const host::LaunchSpec& launch_;
  const PreparationSetting setting_;
  const Environment user_;
  Fd hold_;  // of hold_file(); not open if no container needs it
  Fd output_;
  std::string text_;
  std::optional<Error> failure_;  // of open()
};

}  // namespace lockstep::agent
