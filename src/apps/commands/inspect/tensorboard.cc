#include <limits>
#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/import/write_event_file.h"

namespace lockstep::cli {
namespace {

struct TensorboardFlags {
  std::string run, folder;
  std::optional<int> rank;
};

Result<int> write_for_tensorboard(const TensorboardFlags& flags) {
  const model::RunId run = TRY(run_argument(flags.run));
  const std::string folder =
      flags.folder.empty() ? format("tensorboard/{}-{}", run.project, run.number) : flags.folder;
  client::Client client = TRY(connect_to_daemon());
  const WrittenEvents written = TRY(write_event_file(client, run, flags.rank, folder));
  print(format("{}: {} scalars, {} images, {} histograms; `tensorboard --logdir {}` shows them",
               folder, written.scalars, written.images, written.histograms, folder));
  if (written.cut > 0)
    print_to_stderr(
        format("lockstep: {} metrics have more than 100000 points; the first, last, "
               "least and greatest of each stretch were written",
               written.cut));
  return kDone;
}

}  // namespace

// `lockstep tensorboard RUN`: its metrics, images and histograms as a file that TensorBoard opens.
void add_tensorboard(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("tensorboard", "Write a run's metrics as a file for TensorBoard");
  auto flags = std::make_shared<TensorboardFlags>();
  add_run_argument(*command, flags->run);
  command
      ->add_option("--out", flags->folder,
                   "the folder of the file; default: tensorboard/PROJECT-NUMBER")
      ->type_name(kFolderValue);
  command
      ->add_option("--rank", flags->rank,
                   "only what this rank logged; default: the mean over all ranks")
      ->check(whole_number(0, std::numeric_limits<int>::max()));
  command->footer("Example:\n  lockstep tensorboard demo/42 --out runs/demo-42");
  command->callback(
      [&action, flags] { action = [flags] { return write_for_tensorboard(*flags); }; });
}

}  // namespace lockstep::cli
