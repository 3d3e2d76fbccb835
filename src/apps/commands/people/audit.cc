#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/cli/time_option.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/run_display.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr int kLimitMax = 1000;

struct AuditFlags {
  std::string user, project, action, since, until;
  bool refused = false;
  int limit = 100;
  bool json = false;
};

Result<api::AuditQuery> query_of(const AuditFlags& flags) {
  api::AuditQuery query;
  const auto set = [](std::optional<std::string>& field, const std::string& value) {
    if (!value.empty()) field = value;
  };
  set(query.user, flags.user);
  set(query.project, flags.project);
  set(query.action, flags.action);
  if (!flags.since.empty()) query.since = TRY(past_time_option("--since", flags.since));
  if (!flags.until.empty()) query.until = TRY(past_time_option("--until", flags.until));
  if (flags.refused) query.refused = true;
  query.limit = flags.limit;
  return query;
}

std::string change_text(const api::AuditView& record) {
  if (record.refused) return "refused: " + record.after;
  if (record.before.empty() || record.after.empty())
    return record.before.empty() ? record.after : record.before + " > -";
  return format("{} > {}", record.before, record.after);
}

std::string audit_text(const api::AuditList& list) {
  if (list.records.empty()) return "no records";
  Table table({"TIME", "USER", "FROM", "ACTION", "TARGET", "CHANGE"});
  for (const api::AuditView& record : list.records)
    table.add({text(std::chrono::floor<std::chrono::seconds>(record.time)), record.user,
               record.from.empty() ? "-" : record.from, record.action,
               record.target.empty() ? "-" : record.target, change_text(record)});
  return fit_to_terminal(table);
}

Result<int> audit(const AuditFlags& flags) {
  const api::AuditQuery query = TRY(query_of(flags));
  client::Client client = TRY(connect_to_daemon());
  const auto list = TRY(client.call(api::kAudit, {.query = query}));
  print(flags.json ? dump_json(to_json(list), Indent::two) : audit_text(list));
  if (list.more && !flags.json)
    print_to_stderr(format("lockstep: there are older records; --until {} shows them",
                           text(list.records.back().time)));
  return kDone;
}

}  // namespace

// `lockstep audit [--user U] [--project P] [--action A] [--since T] [--until T] [--refused]`.
void add_audit(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("audit", "List what users changed and what they were refused");
  auto flags = std::make_shared<AuditFlags>();
  command->add_option("--user", flags->user, "only what this user did")->type_name("USER");
  command->add_option("--project", flags->project, "only what was done in this project")
      ->type_name("PROJECT");
  command->add_option("--action", flags->action, "only this action, such as run.stop")
      ->type_name("ACTION");
  command
      ->add_option("--since", flags->since,
                   "only from this time on, such as 2h or 2026-11-22T12:00:00Z")
      ->type_name("TIME");
  command->add_option("--until", flags->until, "only before this time")->type_name("TIME");
  command->add_flag("--refused", flags->refused, "only what was refused");
  command->add_option("--limit", flags->limit, "the greatest number of records")
      ->type_name("N")
      ->check(whole_number(1, kLimitMax))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Newest first. Admins read all, managers what was done in their projects. No record can be "
      "changed\nor removed.\n\n"
      "Examples:\n"
      "  lockstep audit --since 2h\n"
      "  lockstep audit --project demo --action run.stop\n"
      "  lockstep audit --user ann --refused --json");
  command->callback([&action, flags] { action = [flags] { return audit(*flags); }; });
}

}  // namespace lockstep::cli
