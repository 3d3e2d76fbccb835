#include <charconv>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/run_display.h"
#include "apps/run/start_estimate.h"
#include "base/format.h"
#include "base/os/files.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr auto kReportActions = "ls|show|save|rm";
constexpr std::size_t kReportMax = 256 << 10;  // bytes, as the daemon has it

struct ReportFlags {
  std::string action, subject;
  std::string name, project;
  std::optional<std::int64_t> id{};
  bool json = false;
};

Result<client::Path> report_path(const ReportFlags& flags) {
  std::int64_t number = 0;
  const char* const end = flags.subject.data() + flags.subject.size();
  const auto [read, error] = std::from_chars(flags.subject.data(), end, number);
  if (error == std::errc() && read == end && number > 0)
    return client::Path::of_name(flags.subject);
  return Error{Code::invalid,
               format("report {}: '{}' is no number of a report; `lockstep report ls` lists them",
                      flags.action, flags.subject)};
}

Result<int> list_reports(const ReportFlags& flags) {
  if (!flags.subject.empty())
    return Error{Code::invalid, "report ls: takes no number; `lockstep report show N` shows one"};
  api::DocumentQuery query{.kind = model::DocumentKind::report};
  if (!flags.project.empty()) query.project = flags.project;
  client::Client client = TRY(connect_to_daemon());
  const auto list = TRY(client.call(api::kDocuments, {.query = query}));
  if (flags.json) {
    print(dump_json(to_json(list), Indent::two));
    return kDone;
  }
  if (list.documents.empty()) {
    print("no reports; `lockstep report save FILE` makes one of a file in Markdown");
    return kDone;
  }
  Table table({"REPORT", "PROJECT", "NAME", "USER", "CHANGED"});
  for (const api::DocumentView& report : list.documents)
    table.add({format("{}", report.id), report.project, report.name, report.user,
               moment_text(report.changed)});
  print(fit_to_terminal(table));
  return kDone;
}

Result<int> show_report(const ReportFlags& flags) {
  const client::Path path = TRY(report_path(flags));
  client::Client client = TRY(connect_to_daemon());
  auto report = TRY(client.call(api::kDocument, {.path = path}));
  if (report.text.ends_with('\n')) report.text.pop_back();  // print() adds one
  print(flags.json ? dump_json(to_json(report), Indent::two) : report.text);
  return kDone;
}

// A new report has the name of its file. One that exists keeps its name, unless another is given.
Result<int> save_report(const ReportFlags& flags) {
  const std::filesystem::path file = flags.subject;
  api::SaveDocumentRequest request;
  request.id = flags.id;
  request.kind = model::DocumentKind::report;
  request.text = TRY(read_file(file, kReportMax));
  request.name = file.stem().string();
  request.project = flags.project.empty() ? "default" : flags.project;
  client::Client client = TRY(connect_to_daemon());
  if (flags.id) {
    const auto replaced =
        TRY(client.call(api::kDocument, {.path = client::Path::of_name(format("{}", *flags.id))}));
    request.name = replaced.name;
    request.project = replaced.project;
  }
  if (!flags.name.empty()) request.name = flags.name;
  const auto report = TRY(client.call(api::kSaveDocument, {.request = request}));
  print(flags.json ? dump_json(to_json(report), Indent::two)
                   : format("report {} of {}: {}", report.id, report.project, report.name));
  return kDone;
}

Result<int> remove_report(const ReportFlags& flags) {
  const client::Path path = TRY(report_path(flags));
  client::Client client = TRY(connect_to_daemon());
  const auto removed = TRY(client.call(api::kRemoveDocument, {.path = path}));
  print(flags.json ? dump_json(to_json(removed), Indent::two)
                   : format("removed report {}: {}", removed.id, removed.name));
  return kDone;
}

Result<int> act_on_report(const ReportFlags& flags) {
  if (flags.action == "ls") return list_reports(flags);
  const bool saves = flags.action == "save";
  if (!saves && flags.action != "show" && flags.action != "rm")
    return Error{Code::invalid, format("report: there is no action '{}': write one of {}",
                                       flags.action, kReportActions)};
  if (flags.subject.empty())
    return Error{Code::invalid,
                 saves ? "report save: name a file in Markdown"
                       : format("report {}: write the number of the report", flags.action)};
  if (saves) return save_report(flags);
  return flags.action == "show" ? show_report(flags) : remove_report(flags);
}

}  // namespace

// `lockstep report ls|show|save|rm`: the reports of the page.
void add_report(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("report", "List, show, save and remove the reports of the web page");
  auto flags = std::make_shared<ReportFlags>();
  command->add_option("action", flags->action, "what to do")->required()->type_name(kReportActions);
  command
      ->add_option("subject", flags->subject,
                   "save: a file in Markdown; show and rm: the number of the report")
      ->type_name("WHAT");
  command->add_option("--id", flags->id, "save: the report to replace (default: a new one)")
      ->type_name("N");
  command->add_option("--name", flags->name, "save: its name (default: that of the file)")
      ->type_name("NAME");
  command
      ->add_option("--project", flags->project,
                   "save: the project whose members may read a new report (default: default); "
                   "ls: only its reports")
      ->type_name("NAME");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "The page shows report 12 at /reports/12.\n\n"
      "Examples:\n"
      "  lockstep report save findings.md --project demo\n"
      "  lockstep report show 12 > findings.md\n"
      "  lockstep report save findings.md --id 12");
  command->callback([&action, flags] { action = [flags] { return act_on_report(*flags); }; });
}

}  // namespace lockstep::cli
