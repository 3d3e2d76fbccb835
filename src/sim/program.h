// Program: what the ranks of a simulated run do, written into the run's command, so that it travels
// the way a real command does.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::sim {

// What befalls one rank of the first attempts: it exits with 3, is killed by signal 11, or goes on
// for ever without a step.
enum class Misfortune { none, exits, crashes, hangs };
constexpr auto enum_names(Misfortune) {
  return names<Misfortune>({{Misfortune::none, "none"},
                            {Misfortune::exits, "exits"},
                            {Misfortune::crashes, "crashes"},
                            {Misfortune::hangs, "hangs"}});
}

struct Program {
  int steps = 20;
  Duration step_time = std::chrono::seconds(1);
  int checkpoint_every = 5;  // steps; also after the last
  Misfortune misfortune = Misfortune::none;
  int bad_step = 0;                                     // when it comes
  int bad_rank = 0;                                     // to whom
  int bad_attempts = 0;                                 // in the first attempts of the run
  Duration stop_time = std::chrono::milliseconds(100);  // from SIGTERM to its end
  Duration left_behind{};     // its children outlive a killed agent by this; zero: there are none
  bool notices_peers = true;  // exits with 1 when a peer is gone; else it waits for ever
  Duration patience{};        // gives up when a step takes so much longer; zero: never
  bool reports = true;        // tells its agent of its steps

  static constexpr auto fields() {
    return record<Program>(
        field("steps", &Program::steps, "how many"),
        field("step_time", &Program::step_time, "of each step"),
        field("checkpoint_every", &Program::checkpoint_every, "steps"),
        field("misfortune", &Program::misfortune, "of a rank: none, exits, crashes or hangs"),
        field("bad_step", &Program::bad_step, "the step after which it comes"),
        field("bad_rank", &Program::bad_rank, "the rank to which it comes"),
        field("bad_attempts", &Program::bad_attempts, "the attempts, from the first, that have it"),
        field("stop_time", &Program::stop_time, "from SIGTERM to its end"),
        field("left_behind", &Program::left_behind, "how long its children outlive the agent"),
        field("notices_peers", &Program::notices_peers, "exits when a peer is gone"),
        field("patience", &Program::patience, "for a step that a peer holds up; zero: for ever"),
        field("reports", &Program::reports, "tells its agent of its steps"));
  }

  Duration whole_time() const { return step_time * steps; }
};

std::vector<std::string> command_of(const Program& program);
// "20 steps of 1s, a checkpoint every 5; rank 2 crashes after step 4 of attempts 1 to 3"
std::string words_of(const Program& program);
// The command must be one of command_of().
Program program_of(const std::vector<std::string>& command);

}  // namespace lockstep::sim
