// Program: the behaviour of a simulated run's ranks, encoded in the run's command, so that it is
// passed on as a real command is.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::sim {

// The fault of one rank in the first attempts: it exits with code 3, is killed by signal 11, or
// hangs without a step.
enum class ProgramFault { none, exits, crashes, hangs };
constexpr auto enum_names(ProgramFault) {
  return names<ProgramFault>({{ProgramFault::none, "none"},
                              {ProgramFault::exits, "exits"},
                              {ProgramFault::crashes, "crashes"},
                              {ProgramFault::hangs, "hangs"}});
}

struct Program {
  int steps = 20;
  Duration step_time = std::chrono::seconds(1);
  int checkpoint_every = 5;  // steps; also after the last
  ProgramFault fault = ProgramFault::none;
  int fault_step = 0;                                   // when it comes
  int fault_rank = 0;                                   // of this rank
  int faulty_attempts = 0;                              // in the first attempts of the run
  Duration stop_time = std::chrono::milliseconds(100);  // from SIGTERM to its end
  Duration child_lifetime{};  // its children outlive a killed agent by this; zero: there are none
  bool exits_on_peer_loss =
      true;                   // exits with 1 when a peer is gone; else it waits without a limit
  Duration step_timeout{};    // gives up when a step takes so much longer; zero: never
  bool reports_steps = true;  // sends its steps to its agent

  static constexpr auto fields() {
    return record<Program>(
        field("steps", &Program::steps, "how many"),
        field("step_time", &Program::step_time, "of each step"),
        field("checkpoint_every", &Program::checkpoint_every, "steps"),
        field("misfortune", &Program::fault, "of a rank: none, exits, crashes or hangs"),
        field("bad_step", &Program::fault_step, "the step after which it comes"),
        field("bad_rank", &Program::fault_rank, "the rank to which it comes"),
        field("bad_attempts", &Program::faulty_attempts,
              "the attempts, from the first, that have it"),
        field("stop_time", &Program::stop_time, "from SIGTERM to its end"),
        field("left_behind", &Program::child_lifetime, "how long its children outlive the agent"),
        field("notices_peers", &Program::exits_on_peer_loss, "exits when a peer is gone"),
        field("patience", &Program::step_timeout,
              "for a step that a peer holds up; zero: for ever"),
        field("reports", &Program::reports_steps, "tells its agent of its steps"));
  }

  Duration whole_time() const { return step_time * steps; }
};

std::vector<std::string> command_of(const Program& program);
// "20 steps of 1s, a checkpoint every 5; rank 2 crashes after step 4 of attempts 1 to 3"
std::string describe_program(const Program& program);
// The command must be one of command_of().
Program program_of(const std::vector<std::string>& command);

}  // namespace lockstep::sim
