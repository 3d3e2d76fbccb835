#include <filesystem>
#include <memory>
#include <system_error>

#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/import/event_files.h"
#include "apps/import/offline_folder.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTensorboard = "tensorboard";

struct ImportFlags {
  std::vector<std::string> words;  // ["tensorboard",] the folder
  std::string run, project, name;
};

Result<fs::path> folder_of(const std::string& words) {
  std::error_code failed;
  fs::path folder = fs::canonical(words, failed);
  if (!failed && fs::is_directory(folder, failed)) return folder;
  return Error{Code::not_found, format("there is no folder {}", words)};
}

// A folder is known by its machine and path.
std::string place_of(const fs::path& folder) {
  std::string host(256, '\0');
  if (::gethostname(host.data(), host.size()) != 0) host.clear();
  return host.substr(0, host.find('\0')) + ":" + folder.string();
}

Result<model::RunId> target_run(client::Client& client, const ImportFlags& flags,
                                ImportTarget target) {
  if (!flags.run.empty()) return run_argument(flags.run);
  target.project = flags.project;
  if (!flags.name.empty()) target.name = flags.name;
  return import_run(client, target);
}

Result<int> import_tensorboard(const ImportFlags& flags) {
  const fs::path folder = TRY(folder_of(flags.words.back()));
  const auto files = TRY(find_event_files(folder));
  if (files.empty())
    return Error{Code::not_found,
                 format("{} has no event files (events.out.tfevents.*)", folder.string())};
  client::Client client = TRY(connect_to_daemon());
  const model::RunId run = TRY(target_run(client, flags,
                                          {.key = place_of(folder),
                                           .source = std::string(kTensorboard),
                                           .name = folder.filename().string(),
                                           .project = {}}));
  ImportCounts counts;
  TRY(import_event_files(client, run, folder, files, counts));
  print_counts(run, counts);
  return kDone;
}

Result<int> import_folder(const ImportFlags& flags) {
  const fs::path folder = TRY(folder_of(flags.words.back()));
  const OfflineRun offline = TRY(read_offline_run(folder));
  client::Client client = TRY(connect_to_daemon());
  const model::RunId run = TRY(target_run(
      client, flags,
      {.key = offline.id, .source = "lockstep.log", .name = offline.name, .project = {}}));
  ImportCounts counts;
  TRY(import_offline(client, run, folder, counts));
  print_counts(run, counts);
  return kDone;
}

}  // namespace

// `lockstep import [tensorboard] FOLDER`: what was recorded without a daemon, as a run.
void add_import(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "import", "Import metrics: a folder of LOCKSTEP_OFFLINE, or event files of TensorBoard");
  auto flags = std::make_shared<ImportFlags>();
  command
      ->add_option("folder", flags->words,
                   "the folder; with the word tensorboard before it, of event files")
      ->required()
      ->expected(1, 2)
      ->type_name(kFolderValue);
  auto* run = command->add_option("--run", flags->run, "into this run, instead of one of its own")
                  ->type_name(kRunValue);
  command->add_option("--project", flags->project, "the project of the run")
      ->type_name("PROJECT")
      ->excludes(run);
  command->add_option("--name", flags->name, "the name of the run; default: that of the folder")
      ->type_name("NAME")
      ->excludes(run);
  command->footer(
      "The same folder goes into the same run: what that has already is not stored again.\n\n"
      "Examples:\n  lockstep import tensorboard runs/exp1\n  lockstep import results/offline");
  command->callback([&action, flags] {
    action = [flags]() -> Result<int> {
      if (flags->words.size() == 1) return import_folder(*flags);
      if (flags->words.front() == kTensorboard) return import_tensorboard(*flags);
      return Error{Code::invalid, format("'{}' cannot be imported; write `lockstep import FOLDER` "
                                         "or `lockstep import tensorboard FOLDER`",
                                         flags->words.front())};
    };
  });
}

}  // namespace lockstep::cli
