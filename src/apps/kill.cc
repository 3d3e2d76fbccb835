#include <csignal>

#include "apps/command.h"

namespace lockstep {
namespace {

Result<api::RankView> find_rank(const api::RunView& run, int rank) {
  if (!run.attempts.empty())
    for (const auto& node : run.attempts.back().nodes)
      for (const auto& view : node.ranks)
        if (view.rank == rank && view.state == "running") return view;
  return Error{Code::not_found,
               format("{} has no running rank {}; see `lockstep show {}`", run.id, rank, run.id)};
}

Result<int> signal_number(const std::string& name) {
  for (int number = 1; number < 32; ++number)
    if (name == ::sigabbrev_np(number) || name == format("{}", number)) return number;
  return Error{Code::invalid,
               format("'{}' is not a signal; write KILL, TERM, STOP, USR1 or a number", name)};
}

}  // namespace

// `lockstep kill RUN --rank R`: a signal to one rank's process on this machine: to see a fault
// happen, or to ask a program for a dump.
void add_kill(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("kill", "Send a signal to one rank on this machine");
  auto run = std::make_shared<std::string>();
  auto rank = std::make_shared<int>(0);
  auto signal = std::make_shared<std::string>("KILL");
  command->add_option("run", *run, "the run, such as demo/42")->required();
  command->add_option("--rank", *rank, "the rank")->required();
  command->add_option("--signal", *signal, "its name or number")->capture_default_str();
  command->callback([&action, run, rank, signal] {
    action = [run, rank, signal]() -> Result<int> {
      int number = TRY(signal_number(*signal));
      Client client = TRY(connect());
      api::RunView view = TRY(client.run(TRY(run_argument(*run))));
      api::RankView target = TRY(find_rank(view, *rank));
      if (::kill(static_cast<pid_t>(target.pid), number) != 0)
        return os_error(format("signalling rank {} (process {})", *rank, target.pid), errno);
      print(format("sent SIG{} to rank {} of {} (process {})", ::sigabbrev_np(number), *rank,
                   view.id, target.pid));
      return kDone;
    };
  });
}

}  // namespace lockstep
