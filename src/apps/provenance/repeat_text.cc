#include "apps/provenance/repeat_text.h"

#include <algorithm>

#include "base/format.h"
#include "text/shell_words.h"

namespace lockstep::cli {
namespace {

bool has_artifact(const api::ArtifactList& artifacts, std::string_view path) {
  return std::ranges::any_of(artifacts.artifacts,
                             [&](const api::ArtifactView& one) { return one.path == path; });
}

std::string get_line(const api::RunView& run, std::string_view path) {
  return format("lockstep artifacts {} {} --download .", run.id, path);
}

std::string code_lines(const api::RunView& run, const api::ArtifactList& artifacts) {
  if (run.spec.upload) return "# The code is the uploaded folder, which the fork uses again.\n";
  if (run.origin.git_commit.empty())
    return format("# The code is not known: {} was in no git repository. Use --upload.\n",
                  run.spec.working_folder);
  std::string lines = format("git -C {} checkout {}\n", shell_words({run.spec.working_folder}),
                             run.origin.git_commit);
  if (has_artifact(artifacts, kCodeDiff))
    lines += format("{} && git -C {} apply $PWD/code.diff\n", get_line(run, kCodeDiff),
                    shell_words({run.spec.working_folder}));
  else if (run.origin.git_dirty)
    lines += "# It had changes that were not committed, and they were not kept.\n";
  return lines;
}

std::string environment_lines(const api::RunView& run, const api::ArtifactList& artifacts) {
  if (const auto environment = model::software_environment(run.spec))
    return format("# The environment is {}, which the fork uses again.\n", text(*environment));
  if (!has_artifact(artifacts, kRequirements))
    return "# The Python packages are not known: its program did not report by lockstep.\n";
  return format("{} && pip install -r requirements.txt\n", get_line(run, kRequirements));
}

}  // namespace

std::string repeat_text(const api::RunView& run, const api::ArtifactList& artifacts) {
  std::string lines = format("# {} ({}): {}\n", run.id, run.name, shell_words(run.spec.command));
  if (!run.launcher.empty()) {
    lines += format("# {} started it, with a command that Lockstep does not know.\n", run.launcher);
    return lines + environment_lines(run, artifacts);
  }
  lines += code_lines(run, artifacts) + environment_lines(run, artifacts);
  if (has_artifact(artifacts, kEnvironment))
    lines += format("# Versions of Python, torch, CUDA and the driver:\n{}\n",
                    get_line(run, kEnvironment));
  for (const auto& [key, value] : run.tags) lines += format("# {}={}\n", key, value);
  return lines + format("lockstep fork {}", run.id);
}

}  // namespace lockstep::cli
