#include <memory>
#include <string>
#include <vector>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

struct AnnotationFlags {
  std::string run;
  std::vector<std::string> tags;  // KEY=VALUE, or KEY- to remove it
  std::string note;
  bool json = false;
};

Result<model::Tags> tag_changes(const std::vector<std::string>& words) {
  model::Tags changes;
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    const bool removes = equals == std::string::npos && word.size() > 1 && word.ends_with('-');
    if (!removes && (equals == std::string::npos || equals == 0 || equals + 1 == word.size()))
      return Error{Code::invalid,
                   format("{}: write KEY=VALUE to set a tag, or KEY- to remove it", word)};
    changes[removes ? word.substr(0, word.size() - 1) : word.substr(0, equals)] =
        removes ? std::string() : word.substr(equals + 1);
  }
  return changes;
}

Result<int> annotate(const AnnotationFlags& flags, const api::AnnotateRequest& request) {
  const model::RunId id = TRY(run_argument(flags.run));
  client::Client client = TRY(connect_to_daemon());
  const auto run = TRY(client.call(api::kAnnotate, {.path = id, .request = request}));
  if (flags.json) {
    print(dump_json(to_json(run), Indent::two));
    return kDone;
  }
  std::vector<std::string> tags;
  for (const auto& [key, value] : run.tags) tags.push_back(format("{}={}", key, value));
  if (request.note)
    print(format("{} has {} note", run.id, run.note.empty() ? "no" : "a"));
  else
    print(format("{} has {}", run.id, tags.empty() ? "no tags" : joined(tags, ", ")));
  return kDone;
}

}  // namespace

// `lockstep tag RUN KEY=VALUE... KEY-...`.
void add_tag(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("tag", "Give a run tags, also after its end");
  auto flags = std::make_shared<AnnotationFlags>();
  add_run_argument(*command, flags->run);
  command->add_option("tag", flags->tags, "KEY=VALUE sets a tag, KEY- removes it")
      ->required()
      ->type_name("KEY=VALUE");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Examples:\n"
      "  lockstep tag demo/42 stage=final owner=ann\n"
      "  lockstep tag demo/42 stage-\n"
      "  lockstep ps --tag stage=final");
  command->callback([&action, flags] {
    action = [flags]() -> Result<int> {
      return annotate(*flags, {.tags = TRY(tag_changes(flags->tags)), .note = {}});
    };
  });
}

// `lockstep note RUN TEXT`.
void add_note(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("note", "Write a note about a run, also after its end");
  auto flags = std::make_shared<AnnotationFlags>();
  add_run_argument(*command, flags->run);
  command->add_option("text", flags->note, "instead of the note that it has; empty: none")
      ->required()
      ->type_name("TEXT");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer("Example:\n  lockstep note demo/42 \"diverges after step 4000\"");
  command->callback([&action, flags] {
    action = [flags]() -> Result<int> {
      return annotate(*flags, {.tags = {}, .note = flags->note});
    };
  });
}

}  // namespace lockstep::cli
