#include "sim/world/program.h"

#include "text/convert.h"

namespace lockstep::sim {

std::vector<std::string> command_of(const Program& program) {
  return {"train", dump_json(to_json(program))};
}

std::string describe_program(const Program& program) {
  std::string words = format("{} steps of {}, a checkpoint every {}", program.steps,
                             text(program.step_time), program.checkpoint_every);
  if (program.fault != ProgramFault::none)
    words += format("; rank {} {} after step {} of attempts 1 to {}", program.fault_rank,
                    name_of(program.fault), program.fault_step, program.faulty_attempts);
  if (program.step_timeout > Duration(0))
    words += format("; ranks give up after {} without a step", text(program.step_timeout));
  if (!program.reports_steps) words += "; they report nothing";
  return words;
}

Program program_of(const std::vector<std::string>& command) {
  LS_CHECK(command.size() == 2);
  return from_json<Program>(parse_json(command[1]).value()).value();
}

}  // namespace lockstep::sim
