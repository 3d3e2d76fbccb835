#include <memory>
#include <string>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/run_display.h"
#include "apps/run/start_estimate.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr int kFindingsMax = 1000;

struct FindingFlags {
  std::string run;
  bool open = false;
  int limit = 100;
  bool json = false;
};

std::string number_text(std::optional<int> number) {
  return number ? format("{}", *number) : std::string("-");
}

std::string findings_text(const api::FindingList& list, const FindingFlags& flags) {
  if (list.findings.empty()) return flags.open ? "no finding goes on" : "no findings";
  Table table({"RUN", "KIND", "HOST", "DEVICE", "RANK", "SINCE", "ENDED", "ACT", "FINDING"});
  for (const api::FindingView& each : list.findings)
    table.add({format("{}.{}", each.run, each.attempt), std::string(name_of(each.kind)),
               each.host.empty() ? "-" : each.host, number_text(each.device),
               number_text(each.rank), moment_text(each.since),
               each.ended ? moment_text(*each.ended) : "-", std::string(name_of(each.act)),
               each.text});
  return fit_to_terminal(table);
}

Result<int> findings(const FindingFlags& flags) {
  const api::FindingQuery query{.open = flags.open, .limit = flags.limit};
  api::FindingList list;
  if (flags.run.empty()) {
    client::Client client = TRY(connect_to_daemon());
    list = TRY(client.call(api::kFindings, {.query = query}));
  } else {
    const model::RunId id = TRY(run_argument(flags.run));
    client::Client client = TRY(connect_to_daemon());
    list = TRY(client.call(api::kRunFindings, {.path = id, .query = query}));
  }
  print(flags.json ? dump_json(to_json(list), Indent::two) : findings_text(list, flags));
  if (list.more && !flags.json)
    print_to_stderr("lockstep: there are older findings; --limit N shows more");
  return kDone;
}

}  // namespace

// `lockstep findings [RUN] [--open] [--limit N]`.
void add_findings(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "findings", "List faults that Lockstep found: slow ranks, throttled devices, errors");
  auto flags = std::make_shared<FindingFlags>();
  command->add_option("run", flags->run, "only those of this run, such as demo/42")
      ->type_name(kRunValue);
  command->add_flag("--open", flags->open, "only those that have not ended");
  command->add_option("--limit", flags->limit, "the greatest number of findings")
      ->type_name("N")
      ->check(whole_number(1, kFindingsMax))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Newest first.\n\nExamples:\n  lockstep findings demo/42\n  lockstep findings --open --json");
  command->callback([&action, flags] { action = [flags] { return findings(*flags); }; });
}

}  // namespace lockstep::cli
