#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "base/format.h"
#include "text/convert.h"
#include "text/display/table.h"
#include "text/json.h"
#include "train/checkpoint/format/import_export.h"
#include "train/checkpoint/format/list_checkpoints.h"
#include "train/checkpoint/format/saved_checkpoint.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kActionNames = "ls|show|verify|export|import";

struct CheckpointFlags {
  std::string action;
  std::string where;
  std::string to;
  bool json = false;
  bool force = false;
};

// A missing folder must not look like one without checkpoints.
Result<void> check_exists(const fs::path& folder) {
  std::error_code failed;
  if (fs::exists(folder, failed) || failed) return {};
  return Error{Code::not_found, format("there is no folder {}", folder.string())};
}

// The checkpoint at this path, or the newest complete one of a folder.
Result<train::SavedCheckpoint> checkpoint_at(const fs::path& where) {
  TRY(check_exists(where));
  const auto path = (where / "").parent_path();  // without a '/' at its end
  if (!train::step_of(path.filename().string())) return train::newest_checkpoint(path);
  auto checkpoint = train::SavedCheckpoint::open(path);
  if (!checkpoint) return std::move(checkpoint).error().with_context(path.string());
  return checkpoint;
}

// A report that cannot be read has only its step and the error.
struct ListedReport {
  std::int64_t step = 0;
  std::string path;
  std::optional<std::int64_t> epoch;
  std::optional<std::int64_t> ranks;
  std::optional<std::int64_t> bytes;
  std::optional<std::string> problem;

  static constexpr auto fields() {
    return record<ListedReport>(field("step", &ListedReport::step, "steps trained"),
                                field("path", &ListedReport::path, "its folder"),
                                field("epoch", &ListedReport::epoch, "the attempt that wrote it"),
                                field("ranks", &ListedReport::ranks, "that wrote it"),
                                field("bytes", &ListedReport::bytes, "of its files"),
                                field("problem", &ListedReport::problem, "why it cannot be read"));
  }
};

ListedReport report_of(const train::ListedCheckpoint& listed) {
  ListedReport report;
  report.step = listed.step;
  report.path = listed.path.string();
  const auto checkpoint = train::SavedCheckpoint::open(listed.path);
  if (!checkpoint) {
    report.problem = checkpoint.error().message;
    return report;
  }
  const auto& manifest = checkpoint->manifest();
  report.epoch = manifest.epoch;
  report.ranks = manifest.ranks;
  report.bytes = manifest.bytes();
  return report;
}

std::string table_of(const std::vector<ListedReport>& reports) {
  Table table({"step", "attempt", "ranks", "size", "problem"});
  const auto number = [](const auto& value) { return value ? format("{}", *value) : "-"; };
  for (const auto& report : reports)
    table.add({format("{}", report.step), number(report.epoch), number(report.ranks),
               report.bytes ? text(Bytes(*report.bytes)) : "-", report.problem.value_or("-")});
  return table.text(0);
}

Result<int> list(const CheckpointFlags& flags) {
  TRY(check_exists(flags.where));
  std::vector<ListedReport> reports;
  for (const auto& listed : TRY(train::list_checkpoints(flags.where)))
    reports.push_back(report_of(listed));
  if (flags.json) {
    print(dump_json(to_json(reports), Indent::two));
  } else {
    if (reports.empty())
      return Error{Code::not_found, format("{} holds no checkpoints", flags.where)};
    print_buffered(table_of(reports));
    flush();
  }
  return kDone;
}

Result<int> show(const CheckpointFlags& flags) {
  const auto checkpoint = TRY(checkpoint_at(flags.where));
  const auto& manifest = checkpoint.manifest();
  if (flags.json) {
    print(dump_json(to_json(manifest), Indent::two));
    return kDone;
  }
  print_buffered(format(
      "{}: step {} by {} rank{}, attempt {}, {} in {} files\n"
      "optimizer {} after {} steps, {} samples given out\n",
      checkpoint.path().string(), manifest.step, manifest.ranks, manifest.ranks == 1 ? "" : "s",
      manifest.epoch, text(Bytes(manifest.bytes())), manifest.files.size(), manifest.optimizer,
      manifest.optimizer_steps, manifest.sampler_cursor));
  Table table({"tensor", "type", "shape", "size", "slices"});
  for (const auto& tensor : manifest.tensors)
    table.add({tensor.name, std::string(name_of(tensor.type)),
               format("[{}]", joined(tensor.shape, ", ")), text(Bytes(tensor.bytes())),
               format("{}", tensor.slices.size())});
  print_buffered(table.text(0));
  flush();
  return kDone;
}

// Shows the progress of long work on terminals.
class ProgressReport {
 public:
  explicit ProgressReport(std::string_view act) : action_(act) {}
  train::ProgressCallback progress_callback() {
    return [this](Bytes done) { line_.show(format("{}, {} so far", action_, text(done))); };
  }

 private:
  std::string_view action_;
  WaitingLine line_;
};

Result<int> verify(const CheckpointFlags& flags) {
  const auto checkpoint = TRY(checkpoint_at(flags.where));
  const auto path = checkpoint.path().string();
  auto whole = checkpoint.verify(ProgressReport("reading").progress_callback());
  if (!whole) return std::move(whole).error().with_context(path);
  print(format("{} is whole: {} in {} files", path, text(Bytes(checkpoint.manifest().bytes())),
               checkpoint.manifest().files.size()));
  return kDone;
}

using Export = std::function<Result<train::ImportExportSummary>(
    const train::SavedCheckpoint& checkpoint, const fs::path& file,
    const train::ProgressCallback& watch)>;

// The format follows from the suffix of the file, as in programs that read it.
Result<Export> export_to(const fs::path& file) {
  const auto end = file.extension();
  if (end == ".safetensors") return Export(train::export_safetensors);
  if (end == ".pt" || end == ".pth" || end == ".bin") return Export(train::export_torch);
  return Error{Code::invalid,
               format("checkpoint export: the name {} does not say which format to write: let it "
                      "end in .safetensors, or in .pt, .pth or .bin for torch.load",
                      file.string())};
}

Result<void> check_not_replaced(const CheckpointFlags& flags) {
  std::error_code failed;
  if (flags.force || !fs::exists(flags.to, failed)) return {};
  return Error{Code::already_exists,
               format("checkpoint export: {} exists: choose another name, or replace it with "
                      "--force",
                      flags.to)};
}

Result<int> export_model(const CheckpointFlags& flags) {
  const auto write = TRY(export_to(flags.to));
  TRY(check_not_replaced(flags));
  const auto checkpoint = TRY(checkpoint_at(flags.where));
  const auto done =
      TRY(write(checkpoint, flags.to, ProgressReport("exporting").progress_callback()));
  print(format("{} tensors of {}, {}, are in {}", done.tensors, checkpoint.path().string(),
               text(done.bytes), flags.to));
  return kDone;
}

Result<int> import_model(const CheckpointFlags& flags) {
  const auto done = TRY(train::import_safetensors(flags.where, flags.to,
                                                  ProgressReport("importing").progress_callback()));
  print(
      format("{} tensors of {}, {}, are in {}: a training with that checkpoint folder begins "
             "with them",
             done.tensors, flags.where, text(done.bytes), flags.to));
  return kDone;
}

struct CheckpointAction {
  std::string_view name;
  Result<int> (*carry_out)(const CheckpointFlags& flags);
  bool writes;  // the export writes the file of --to
};

constexpr std::array<CheckpointAction, 5> kActs = {{{"ls", list, false},
                                                    {"show", show, false},
                                                    {"verify", verify, false},
                                                    {"export", export_model, true},
                                                    {"import", import_model, true}}};

Result<int> act_on(const CheckpointFlags& flags) {
  const auto* const act = std::ranges::find(kActs, flags.action, &CheckpointAction::name);
  if (act == kActs.end())
    return Error{Code::invalid, format("checkpoint: there is no action '{}': write one of {}",
                                       flags.action, kActionNames)};
  if (act->writes && flags.to.empty())
    return Error{Code::invalid, format("checkpoint {}: say with --to where to write", act->name)};
  if (!act->writes && !flags.to.empty())
    return Error{Code::invalid, format("checkpoint {} writes nothing: leave out --to", act->name)};
  if (flags.force && act->carry_out != export_model)
    return Error{Code::invalid,
                 format("checkpoint {} replaces no file: leave out --force", act->name)};
  return act->carry_out(flags);
}

}  // namespace

// `lockstep checkpoint ls|show|verify|export|import PATH`: checkpoints as files, without a daemon.
void add_checkpoint(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("checkpoint", "List, check, export or import checkpoints");
  auto flags = std::make_shared<CheckpointFlags>();
  command->add_option("action", flags->action, "what to do")->required()->type_name(kActionNames);
  command
      ->add_option("where", flags->where,
                   "a folder of checkpoints, or one of them (import: a safetensors file); of a "
                   "folder the newest is meant")
      ->required()
      ->type_name(kFolderValue);
  command
      ->add_option("--to", flags->to,
                   "export: the file to write, .safetensors, or .pt, .pth or .bin for torch.load; "
                   "import: the new folder of checkpoints")
      ->type_name(kFileValue);
  command->add_flag("--json", flags->json, "ls, show: print JSON");
  command->add_flag("--force", flags->force, "export: replace the file if it exists");
  command->footer(
      "Examples:\n"
      "  lockstep checkpoint ls /data/gpt\n"
      "  lockstep checkpoint verify /data/gpt/step-00000100\n"
      "  lockstep checkpoint export /data/gpt --to model.safetensors\n"
      "  lockstep checkpoint export /data/gpt --to model.pt");
  command->callback([&action, flags] { action = [flags] { return act_on(*flags); }; });
}

}  // namespace lockstep::cli
