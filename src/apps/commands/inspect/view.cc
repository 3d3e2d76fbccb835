#include <memory>
#include <string>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/run_display.h"
#include "apps/run/saved_view.h"
#include "apps/run/start_estimate.h"
#include "base/format.h"
#include "platform/api/json.h"
#include "platform/run_query/query.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr auto kViewActions = "ls|save|rm";

struct ViewFlags {
  std::string action, name, query;
  bool json = false;
};

Result<int> list_views(const ViewFlags& flags) {
  if (!flags.name.empty())
    return Error{Code::invalid, "view ls: takes no name; `lockstep ps --view NAME` shows its runs"};
  client::Client client = TRY(connect_to_daemon());
  const auto views = TRY(saved_views(client));
  if (flags.json) {
    print(dump_json(to_json(api::DocumentList{views}), Indent::two));
    return kDone;
  }
  if (views.empty()) {
    print("no views; `lockstep view save NAME --query LINE` saves one");
    return kDone;
  }
  Table table({"VIEW", "QUERY", "CHANGED"});
  for (const api::DocumentView& view : views) {
    const auto query = query_of_view(view.text);  // fails for one that another program has saved
    table.add({view.name, !query || query->empty() ? "-" : *query, moment_text(view.changed)});
  }
  print(fit_to_terminal(table));
  return kDone;
}

// A view of that name gets the query, and keeps the columns that the page has saved with it.
Result<int> save_view(const ViewFlags& flags) {
  TRY(run_query::parse_query(flags.query));
  client::Client client = TRY(connect_to_daemon());
  api::SaveDocumentRequest request;
  request.name = flags.name;
  std::string replaced;
  const auto known = saved_view(client, flags.name);
  if (!known && known.error().code != Code::not_found) return known.error();
  if (known) {
    request.id = known->id;
    request.version = known->version;
    replaced = known->text;
  }
  request.text = TRY(with_query(replaced, flags.query));
  const auto view = TRY(client.call(api::kSaveDocument, {.request = request}));
  print(flags.json ? dump_json(to_json(view), Indent::two)
                   : format("view {}: {}", view.name, flags.query));
  return kDone;
}

Result<int> remove_view(const ViewFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  const auto view = TRY(saved_view(client, flags.name));
  const auto path = client::Path::of_name(format("{}", view.id));
  const auto removed = TRY(client.call(api::kRemoveDocument, {.path = path}));
  print(flags.json ? dump_json(to_json(removed), Indent::two)
                   : format("removed the view {}", removed.name));
  return kDone;
}

Result<int> act_on_view(const ViewFlags& flags) {
  if (flags.action == "ls") return list_views(flags);
  const bool saves = flags.action == "save";
  if (!saves && flags.action != "rm")
    return Error{Code::invalid, format("view: there is no action '{}': write one of {}",
                                       flags.action, kViewActions)};
  if (flags.name.empty())
    return Error{Code::invalid, format("view {}: write the name of the view", flags.action)};
  if (saves && flags.query.empty())
    return Error{Code::invalid, "view save: write --query LINE, such as --query 'state:failed'"};
  return saves ? save_view(flags) : remove_view(flags);
}

}  // namespace

// `lockstep view ls|save|rm`: the saved views of the page.
void add_view(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("view", "List, save and remove your views of runs");
  auto flags = std::make_shared<ViewFlags>();
  command->add_option("action", flags->action, "what to do")->required()->type_name(kViewActions);
  command->add_option("name", flags->name, "save and rm: the name of the view")->type_name("NAME");
  command->add_option("-q,--query", flags->query, "save: the line that selects, sorts and groups")
      ->type_name("LINE");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "The page has them in its menu Views, and `lockstep ps --view NAME` shows the runs of "
      "one.\n\n"
      "Examples:\n"
      "  lockstep view save 'failed this week' --query 'state:failed submitted>-7d'\n"
      "  lockstep ps --view 'failed this week'");
  command->callback([&action, flags] { action = [flags] { return act_on_view(*flags); }; });
}

}  // namespace lockstep::cli
