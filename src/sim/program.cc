#include "sim/program.h"

#include "text/convert.h"

namespace lockstep::sim {

std::vector<std::string> command_of(const Program& program) {
  return {"train", dump_json(to_json(program))};
}

Program program_of(const std::vector<std::string>& command) {
  LS_CHECK(command.size() == 2);
  return from_json<Program>(parse_json(command[1]).value()).value();
}

}  // namespace lockstep::sim
