#include <limits>
#include <memory>
#include <optional>

#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/follow.h"
#include "base/utf8.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

constexpr std::int64_t kRankMax = std::numeric_limits<int>::max();
constexpr std::int64_t kContextMax = 20;   // the daemon's maximum
constexpr std::int64_t kTailMax = 10'000;  // the daemon's maximum for one answer

struct LogsFlags {
  std::string run;
  std::optional<int> rank;
  std::optional<int> tail;
  bool follow = false;
  bool json = false;
  std::optional<std::string> grep;
  bool ignore_case = false;
  int context = 0;
};

void print_page(const api::LogPage& page, bool with_rank, bool json) {
  if (!json) return print_lines(page.lines, with_rank);
  for (const api::LogLine& line : page.lines) print_buffered(dump_json(to_json(line)));
  flush();
}

// Goes to standard error, because an unfinished line may still change.
void print_unfinished(const api::LogPage& page, bool with_rank) {
  for (const api::LogLine& line : page.unfinished)
    print_to_stderr(format("{} (unfinished)", escape_controls(log_text(line, with_rank))));
}

// The parts that match are bold and red, as grep shows them.
std::string coloured(const api::LogMatch& match) {
  std::string line;
  std::size_t shown = 0;
  for (const api::MatchedPart& part : match.parts) {
    const auto begin = static_cast<std::size_t>(part.begin);
    const auto end = static_cast<std::size_t>(part.end);
    line += escape_controls(match.text.substr(shown, begin - shown));
    line += "\033[1;31m" + escape_controls(match.text.substr(begin, end - begin)) + "\033[0m";
    shown = end;
  }
  return line + escape_controls(match.text.substr(shown));
}

// Prints what one answer of a search has; `printed`: a line was printed before.
void print_matches(const api::LogMatches& found, const LogsFlags& flags, bool with_rank,
                   bool& printed) {
  const bool colour = style_for(STDOUT_FILENO) == TableStyle::colour;
  for (const api::LogMatch& match : found.lines) {
    if (flags.json) {
      print_buffered(dump_json(to_json(match)));
      continue;
    }
    if (flags.context > 0 && match.begins && printed) print_buffered("--");
    const std::string rank = with_rank ? format("[{}] ", match.rank) : "";
    print_buffered(rank + (colour ? coloured(match) : escaped_for(STDOUT_FILENO, match.text)));
    printed = true;
  }
  flush();
}

// As grep: 1 if no line matches.
Result<int> search_logs(client::Client& client, const model::RunId& id, const LogsFlags& flags,
                        bool with_rank) {
  api::LogSearchQuery query{.pattern = *flags.grep,
                            .ignore_case = flags.ignore_case,
                            .context = flags.context,
                            .rank = flags.rank};
  InterruptHandler interrupt("");
  bool any = false;
  bool printed = false;
  while (!InterruptHandler::requested()) {
    const api::LogMatches found = TRY(client.call(api::kSearchLogs, {.path = id, .query = query}));
    print_matches(found, flags, with_rank, printed);
    any = any || !found.lines.empty();
    query.after = found.next;
    if (found.ended) break;
  }
  return any ? kDone : kFailed;
}

Result<int> show_logs(const LogsFlags& flags) {
  model::RunId id = TRY(run_argument(flags.run));
  client::Client client = TRY(connect_to_daemon());
  api::RunView run = TRY(client.call(api::kRun, {.path = id}));
  TRY(check_rank(run, flags.rank));
  if (!run.launcher.empty())
    print_to_stderr(format("lockstep: {} was started by {}, which has the output of its ranks",
                           run.id, run.launcher));
  bool with_rank = model::rank_count(run.spec) > 1 && !flags.rank;
  if (flags.grep) return search_logs(client, id, flags, with_rank);
  api::LogsQuery query{.after = 0, .rank = flags.rank, .tail = flags.tail};
  const auto farewell = "\n" + reattach_hint(run.id);
  std::optional<InterruptHandler> interrupt;
  if (flags.follow) interrupt.emplace(farewell);
  while (true) {
    api::LogPage page = TRY(client.call(api::kLogs, {.path = id, .query = query}));
    print_page(page, with_rank, flags.json);
    bool all = page.lines.empty() || query.tail;
    if (all && !flags.follow && !flags.json) print_unfinished(page, with_rank);
    query.after = page.next;
    query.tail.reset();
    if (all || InterruptHandler::requested()) break;
  }
  if (!flags.follow) return kDone;
  auto end = TRY(follow(client, id, {.rank = flags.rank, .after = query.after}));
  if (!end) print_to_stderr(farewell);
  return kDone;
}

}  // namespace

// `lockstep logs RUN [-f] [--rank R] [--tail N] [--grep PATTERN]`: the output of the ranks.
void add_logs(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("logs", "Print what the ranks of a run wrote");
  auto flags = std::make_shared<LogsFlags>();
  add_run_argument(*command, flags->run);
  auto* follow =
      command->add_flag("-f,--follow", flags->follow, "stay until the run ends; Ctrl-C leaves");
  command->add_option("--rank", flags->rank, "only this rank's lines")
      ->check(whole_number(0, kRankMax));
  command->add_option("--tail", flags->tail, "only the last lines, at most 10000")
      ->check(whole_number(1, kTailMax));
  command->add_flag("--json", flags->json, "one JSON object a line")->excludes(follow);
  auto* grep =
      command
          ->add_option("--grep", flags->grep, "only lines that match this regular expression (RE2)")
          ->type_name("PATTERN")
          ->excludes(follow)
          ->excludes("--tail");
  command->add_flag("-i,--ignore-case", flags->ignore_case, "upper and lower case are the same")
      ->needs(grep);
  command->add_option("--context", flags->context, "lines before and after each match, at most 20")
      ->check(whole_number(0, kContextMax))
      ->needs(grep);
  command->footer(
      "All that is kept is printed, page by page, oldest first. A line of a run with several "
      "ranks\n"
      "begins with its rank's number. A line that has no end yet, such as a progress bar, is drawn "
      "over\nas it changes; where output is not a terminal, it goes to standard error. On a "
      "terminal "
      "control\ncharacters are spelled out, such as ^[ for ESC. --grep exits with 1 if no line "
      "matches.\n\n"
      "Examples:\n"
      "  lockstep logs demo/42 --tail 20 --follow\n"
      "  lockstep logs demo/42 --grep 'loss=nan' --context 3\n"
      "  lockstep logs demo/42 --rank 3 --grep error -i");
  command->callback([&action, flags] { action = [flags] { return show_logs(*flags); }; });
}

}  // namespace lockstep::cli
