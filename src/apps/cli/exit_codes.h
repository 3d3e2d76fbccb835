// The exit codes of all commands in one table: `lockstep help exit-codes` prints it, and
// docs/guide/commands.md repeats it.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/result.h"
#include "platform/api/messages.h"

namespace lockstep::cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kWrongUsage = 2;
inline constexpr int kNoDaemon = 3;
inline constexpr int kTimedOut = 124;    // as timeout(1) returns
inline constexpr int kCancelled = 130;   // as a shell returns after Ctrl-C
inline constexpr int kBrokenPipe = 141;  // as a shell returns after a broken pipe

struct ExitCode {
  int code;
  std::string_view meaning;
};

inline constexpr std::array<ExitCode, 7> kExitCodes = {{
    {kDone, "success; of a followed run: it succeeded"},
    {kFailed, "the run failed, or Lockstep or the machine failed, such as by a full disk"},
    {kWrongUsage, "wrong usage or input; nothing was changed"},
    {kNoDaemon, "the daemon cannot be reached, or did not answer in time"},
    {kTimedOut, "the run timed out"},
    {kCancelled, "the run was stopped"},
    {kBrokenPipe, "the program that read the output has ended, as in `lockstep logs 1 | head`"},
}};

int exit_code_for(const Error& error);
int exit_code_for(const api::RunView& run);
// The table as lines of text.
std::string exit_codes_text();

}  // namespace lockstep::cli
