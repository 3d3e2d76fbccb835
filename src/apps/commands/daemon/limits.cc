#include <algorithm>
#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/run_display.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr int kLimitDevicesMax = 100'000'000;

struct LimitFlags {
  std::optional<std::string> project, user;
  std::optional<int> devices, weight;
  std::optional<std::string> idle_stop;
  bool lift = false;
  bool yes = false;
  bool json = false;
};

std::string limits_text(const api::LimitList& list) {
  if (list.limits.empty())
    return "no limits; `lockstep limits --project NAME --devices N` sets one";
  Table table({"WHOSE", "NAME", "DEVICES", "HELD", "WEIGHT", "IDLE STOP"});
  for (const api::LimitView& limit : list.limits)
    table.add({std::string(text(limit.scope)), limit.name,
               limit.devices ? format("{}", *limit.devices) : "-", format("{}", limit.held),
               limit.scope == model::LimitScope::project ? format("{}", limit.weight) : "-",
               limit.idle_stop.empty() ? "-" : limit.idle_stop});
  return fit_to_terminal(table);
}

// Nothing if the limits are only shown.
Result<std::optional<api::LimitRequest>> limit_request_of(const LimitFlags& flags) {
  const bool names = flags.project || flags.user;
  const bool changes = flags.devices || flags.lift || flags.weight || flags.idle_stop;
  if (!names && !changes) return std::optional<api::LimitRequest>();
  if (!names)
    return Error{Code::invalid, "limits: say with --project or --user whose limit is meant"};
  if (!changes)
    return Error{Code::invalid,
                 "limits: say the limit with --devices, --lift it, or give a --weight or an "
                 "--idle-stop"};
  api::LimitRequest request;
  request.scope = flags.project ? model::LimitScope::project : model::LimitScope::user;
  request.name = flags.project ? *flags.project : *flags.user;
  request.devices = flags.devices;
  request.weight = flags.weight;
  request.idle_stop = flags.idle_stop;
  return std::optional(std::move(request));
}

// A mistyped name would lift no limit without a message.
Result<void> check_has_limit(client::Client& client, const api::LimitRequest& wish) {
  const api::LimitList list = TRY(client.call(api::kLimits));
  const auto is_meant = [&](const api::LimitView& limit) {
    return limit.scope == wish.scope && limit.name == wish.name && limit.devices;
  };
  if (std::ranges::any_of(list.limits, is_meant)) return {};
  return Error{Code::not_found, format("the {} '{}' has no limit to lift; `lockstep limits` lists "
                                       "those that are set",
                                       text(wish.scope), wish.name)};
}

Result<int> limits(const LimitFlags& flags) {
  const auto wish = TRY(limit_request_of(flags));
  if (wish && wish->devices == 0 && !flags.yes)
    return Error{Code::invalid,
                 format("limits: with 0 devices no run of the {} '{}' starts any more until the "
                        "limit is lifted; add --yes if that is meant",
                        text(wish->scope), wish->name)};
  client::Client client = TRY(connect_to_daemon());
  if (flags.lift && wish) TRY(check_has_limit(client, *wish));
  const api::LimitList list =
      wish ? TRY(client.call(api::kSetLimit, {.request = *wish})) : TRY(client.call(api::kLimits));
  print(flags.json ? dump_json(to_json(list), Indent::two) : limits_text(list));
  return kDone;
}

}  // namespace

// `lockstep limits [--project P | --user U] [--devices N | --lift] [--weight W] [--idle-stop T]`.
void add_limits(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "limits",
      "Show or set how many devices projects and users may hold, and weights of projects");
  auto flags = std::make_shared<LimitFlags>();
  auto* project = command->add_option("--project", flags->project, "set the limit of this project")
                      ->type_name("PROJECT");
  auto* user = command->add_option("--user", flags->user, "set the limit of this user")
                   ->type_name("USER")
                   ->excludes(project);
  auto* devices =
      command->add_option("--devices", flags->devices, "devices that it may hold at once")
          ->type_name("N")
          ->check(whole_number(0, kLimitDevicesMax));
  auto* lift = command->add_flag("--lift", flags->lift, "it may hold as many as there are again")
                   ->excludes(devices);
  command
      ->add_option("--weight", flags->weight,
                   "the project has a right to W times as much as others (1)")
      ->type_name("W")
      ->check(whole_number(1, model::kWeightMax))
      ->excludes(user)
      ->excludes(lift);
  command
      ->add_option("--idle-stop", flags->idle_stop,
                   "a run of the project is stopped when it has not used its devices for so long")
      ->type_name("TIME|off|default")
      ->excludes(user)
      ->excludes(lift);
  command->add_flag("--yes", flags->yes, "with --devices 0: no run of it is to start any more");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "A run that would exceed a limit waits, and no other run waits for it. Active runs "
      "continue.\n"
      "A weight counts for runs that are submitted from then on.\n"
      "By default runs on GPUs are stopped after 1h without use, those of the class debug after "
      "15m.\n\n"
      "Examples:\n"
      "  lockstep limits\n"
      "  lockstep limits --project demo --devices 16\n"
      "  lockstep limits --project demo --weight 2\n"
      "  lockstep limits --project demo --idle-stop 2h");
  command->callback([&action, flags] { action = [flags] { return limits(*flags); }; });
}

}  // namespace lockstep::cli
