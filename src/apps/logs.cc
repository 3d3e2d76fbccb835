#include <memory>

#include "apps/command.h"
#include "apps/follow.h"
#include "text/convert.h"

namespace lockstep {
namespace {

struct LogsFlags {
  std::string run;
  std::optional<int> rank;
  std::optional<int> tail;
  bool follow = false;
  bool json = false;
};

void print_line(const api::LogLine& line, bool with_rank, bool json) {
  print(json ? dump_json(to_json(line)) : log_text(line, with_rank));
}

Result<int> show_logs(const LogsFlags& flags) {
  Client client = TRY(connect());
  RunId id = TRY(run_argument(flags.run));
  api::RunView run = TRY(client.run(id));
  bool with_rank = run.spec.nodes * run.spec.devices > 1 && !flags.rank;
  LogsQuery query{.after = 0, .rank = flags.rank, .tail = flags.tail, .wait = {}};
  while (true) {
    api::LogPage page = TRY(client.logs(id, query));
    for (const api::LogLine& line : page.lines) print_line(line, with_rank, flags.json);
    bool all = page.lines.empty() || query.tail;
    query.after = page.next;
    query.tail.reset();
    if (all) break;
  }
  if (!flags.follow) return kDone;
  auto end = TRY(follow(client, id, {.rank = flags.rank, .after = query.after}));
  if (!end) say("\n" + how_to_come_back(run.id));
  return kDone;
}

}  // namespace

// `lockstep logs RUN [-f] [--rank R] [--tail N]`: what the ranks wrote.
void add_logs(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("logs", "Print what the ranks of a run wrote");
  auto flags = std::make_shared<LogsFlags>();
  command->add_option("run", flags->run, "the run, such as demo/42")->required();
  auto* follow =
      command->add_flag("-f,--follow", flags->follow, "stay until the run ends; Ctrl-C leaves");
  command->add_option("--rank", flags->rank, "only this rank's lines");
  command->add_option("--tail", flags->tail, "only the last lines")->check(CLI::PositiveNumber);
  command->add_flag("--json", flags->json, "one JSON object a line")->excludes(follow);
  command->callback([&action, flags] { action = [flags] { return show_logs(*flags); }; });
}

}  // namespace lockstep
