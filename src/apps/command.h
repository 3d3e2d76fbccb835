// What every subcommand's file shares: how it is added, its exit codes, and the parts that several
// print.
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "platform/api/messages.h"
#include "platform/client/client.h"

namespace lockstep {

// Set by the chosen subcommand; gives the program's exit code.
using Action = std::function<Result<int>()>;

inline constexpr int kDone = 0;
inline constexpr int kRunFailed = 1;
inline constexpr int kWrongUsage = 2;
inline constexpr int kNoDaemon = 3;
inline constexpr int kTimedOut = 124;     // as timeout(1) says it
inline constexpr int kCancelled = 130;    // as a shell says it of Ctrl-C
inline constexpr int kNobodyReads = 141;  // as a shell says it of a broken pipe

int exit_code_for(const Error& error);
int exit_code_for(const api::RunView& run);

void add_agent(CLI::App& app, Action& action);
void add_kill(CLI::App& app, Action& action);
void add_logs(CLI::App& app, Action& action);
void add_map(CLI::App& app, Action& action);
void add_metrics(CLI::App& app, Action& action);
void add_plot(CLI::App& app, Action& action);
void add_ps(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_show(CLI::App& app, Action& action);
void add_stop(CLI::App& app, Action& action);
void add_version(CLI::App& app, Action& action);
void add_watch(CLI::App& app, Action& action);

// The daemon's client. With none running, starts the user's own on this machine and says so on
// standard error.
Result<Client> connect();
// A daemon holds the folder, though it may not answer yet.
bool is_served(const Home& home);
// Starts `lockstep serve` with these further arguments, detached; returns when it answers, or says
// what its log says.
Result<Client> start_daemon(const Home& home, const std::vector<std::string>& arguments);
// The running program's own path.
Result<std::string> own_program();

// A run as users name it: demo/42, or 42 in the project `default`.
Result<RunId> run_argument(const std::string& words);

bool is_terminal(int fd);
int terminal_width();
void print(const std::string& line);  // to standard output
void say(const std::string& line);    // to standard error: what is not the command's result

}  // namespace lockstep
