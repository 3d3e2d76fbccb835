// Declarations that the files of all subcommands share: registration, and arguments that several
// take.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "platform/api/messages.h"

namespace lockstep::cli {

// Set by the chosen subcommand; returns the program's exit code.
using Action = std::function<Result<int>()>;

// The kind of an option's or an argument's value, as its help shows it and `lockstep completion`
// completes it. Texts with '|' between them are completed as they are.
inline constexpr auto kRunValue = "RUN";
inline constexpr auto kHostValue = "HOST";
inline constexpr auto kProgramValue = "PROGRAM";
inline constexpr auto kFileValue = "FILE";
inline constexpr auto kFolderValue = "FOLDER";
inline constexpr auto kCommandValue = "COMMAND";

void add_budget(CLI::App& app, Action& action);
void add_agent(CLI::App& app, Action& action);
void add_artifacts(CLI::App& app, Action& action);
void add_audit(CLI::App& app, Action& action);
void add_checkpoint(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_completion(CLI::App& app, Action& action);
void add_cp(CLI::App& app, Action& action);
void add_diff(CLI::App& app, Action& action);
void add_exec(CLI::App& app, Action& action);
void add_findings(CLI::App& app, Action& action);
void add_flight(CLI::App& app, Action& action);
void add_fork(CLI::App& app, Action& action);
void add_forward(CLI::App& app, Action& action);
void add_help(CLI::App& app, Action& action);
void add_hold_devices(CLI::App& app, Action& action);
void add_hold(CLI::App& app, Action& action);
void add_host(CLI::App& app, Action& action);
void add_import(CLI::App& app, Action& action);
void add_k8s(CLI::App& app, Action& action);
void add_kill(CLI::App& app, Action& action);
void add_limits(CLI::App& app, Action& action);
void add_login(CLI::App& app, Action& action);
void add_logout(CLI::App& app, Action& action);
void add_logs(CLI::App& app, Action& action);
void add_map(CLI::App& app, Action& action);
void add_metrics(CLI::App& app, Action& action);
void add_model(CLI::App& app, Action& action);
void add_notebook(CLI::App& app, Action& action);
void add_notice(CLI::App& app, Action& action);
void add_open(CLI::App& app, Action& action);
void add_orphan(CLI::App& app, Action& action);
void add_passwd(CLI::App& app, Action& action);
void add_plot(CLI::App& app, Action& action);
void add_priority(CLI::App& app, Action& action);
void add_extend(CLI::App& app, Action& action);
void add_probe(CLI::App& app, Action& action);
void add_profile(CLI::App& app, Action& action);
void add_project(CLI::App& app, Action& action);
void add_ps(CLI::App& app, Action& action);
void add_queue(CLI::App& app, Action& action);
void add_release(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_resume(CLI::App& app, Action& action);
void add_rm(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_secret(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_shell_session(CLI::App& app, Action& action);
void add_show(CLI::App& app, Action& action);
void add_sim(CLI::App& app, Action& action);
void add_ssh(CLI::App& app, Action& action);
void add_stop(CLI::App& app, Action& action);
void add_stream(CLI::App& app, Action& action);
void add_note(CLI::App& app, Action& action);
void add_tag(CLI::App& app, Action& action);
void add_tensorboard(CLI::App& app, Action& action);
void add_token(CLI::App& app, Action& action);
void add_top(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
void add_usage(CLI::App& app, Action& action);
void add_user(CLI::App& app, Action& action);
void add_version(CLI::App& app, Action& action);
void add_view(CLI::App& app, Action& action);
void add_watch(CLI::App& app, Action& action);
void add_whoami(CLI::App& app, Action& action);
void add_why(CLI::App& app, Action& action);

// A run in the notation of users: demo/42, or 42 in the project `default`.
Result<model::RunId> run_argument(const std::string& words);
// The positional argument that run_argument reads.
CLI::Option* add_run_argument(CLI::App& command, std::string& words);
// Several runs, and the argument for them. All are read before any action.
Result<std::vector<model::RunId>> run_arguments(const std::vector<std::string>& words);
CLI::Option* add_run_arguments(CLI::App& command, std::vector<std::string>& words);
// Validates a number; the message names the expected range.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);
// An error when the run has no such rank. An external run may have any.
Result<void> check_rank(const api::RunView& run, std::optional<int> rank);
Result<void> check_node(const api::RunView& run, std::optional<int> node);
// Like parse_duration; errors name the option.
Result<Duration> duration_option(std::string_view option, const std::string& words);

}  // namespace lockstep::cli
