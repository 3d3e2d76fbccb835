#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/help_text.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "platform/core/model/settings/settings.h"
#include "text/nearest.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kExitCodesTopic = "exit-codes";
constexpr std::string_view kSettingsTopic = "settings";

Result<int> show_help(const CLI::App& app, const std::string& topic) {
  if (topic.empty()) {
    print(overview(app));
    return kDone;
  }
  if (topic == kExitCodesTopic) {
    print_buffered("With what every command ends:\n");
    print(exit_codes_text());
    return kDone;
  }
  if (topic == kSettingsTopic) {
    print_buffered("Bounds of the daemon, with their defaults, for `lockstep serve --set`:\n");
    print(model::settings_text());
    return kDone;
  }
  std::vector<std::string_view> known = {kExitCodesTopic, kSettingsTopic};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    known.push_back(command->get_name());
    if (command->get_name() != topic) continue;
    print(command_page(*command));
    return kDone;
  }
  std::string hint = did_you_mean(topic, known);
  return Error{Code::invalid,
               format("there is no help on '{}'{} `lockstep help` lists the commands", topic,
                      hint.empty() ? ";" : hint)};
}

}  // namespace

// `lockstep help [COMMAND | exit-codes | settings]`.
void add_help(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("help", "Show the commands, or what one of them takes");
  auto topic = std::make_shared<std::string>();
  command->add_option("topic", *topic, "a command, exit-codes or settings")
      ->type_name(kCommandValue);
  command->footer("Example:\n  lockstep help run");
  command->callback(
      [&app, &action, topic] { action = [&app, topic] { return show_help(app, *topic); }; });
}

}  // namespace lockstep::cli
