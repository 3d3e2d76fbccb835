#include "apps/cli/exit_codes.h"

#include "base/format.h"

namespace lockstep::cli {

int exit_code_for(const Error& error) {
  switch (error.code) {
    case Code::unavailable:
    case Code::timeout:
      return kNoDaemon;
    case Code::cancelled:
      return kCancelled;
    case Code::internal:
    case Code::corrupt:
    case Code::exhausted:
    case Code::peer_lost:
      return kFailed;
    case Code::invalid:
    case Code::not_found:
    case Code::already_exists:
    case Code::denied:
      return kWrongUsage;
  }
  return kFailed;
}

int exit_code_for(const api::RunView& run) {
  if (run.state == model::RunState::succeeded) return kDone;
  if (run.state == model::RunState::timed_out) return kTimedOut;
  if (run.state == model::RunState::cancelled) return kCancelled;
  return kFailed;
}

std::string exit_codes_text() {
  std::string lines;
  for (const ExitCode& entry : kExitCodes)
    lines += format("{:>5}  {}\n", entry.code, entry.meaning);
  return lines;
}

}  // namespace lockstep::cli
