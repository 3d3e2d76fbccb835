// PmiClient: the key-value space of the launcher that started this rank, by version 1.1 of PMI's
// line protocol over the descriptor PMI_FD. Slurm's plugin pmi2 and Hydra (MPICH's mpiexec) answer
// it. Protocol: MPICH, src/pmi/simple.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace lockstep::comm {

class PmiClient {
 public:
  // fd stays the launcher's: it is not closed.
  static Result<PmiClient> open(int fd, Deadline deadline);

  // Neither the key nor the value has spaces or line ends. Visible to the others after a barrier.
  Result<void> put(std::string_view key, std::string_view value, Deadline deadline);
  // Waits until all ranks of the launcher's start are here.
  Result<void> barrier(Deadline deadline);
  Result<std::string> get(std::string_view key, Deadline deadline);
  // The rank ends as it should: without it, Hydra ends the others and drops their output.
  Result<void> finalize(Deadline deadline);

 private:
  explicit PmiClient(int fd) : fd_(fd) {}

  // The line that answers, which must be of this kind, without an error.
  Result<std::string> call(const std::string& line, std::string_view kind, Deadline deadline);
  Result<std::string> read_line(Deadline deadline);

  int fd_;
  std::string received_;  // after the last line
  std::string space_;     // the name of the key-value space
};

}  // namespace lockstep::comm
