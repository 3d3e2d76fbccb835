#include "platform/job_files/torchrun_command.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <set>
#include <span>
#include <string_view>

#include "base/format.h"

namespace lockstep::job_files {
namespace {

constexpr std::array<std::string_view, 2> kModules = {"torch.distributed.run",
                                                      "torch.distributed.launch"};
// torch.distributed.run, its parser of arguments: those without a value.
const std::set<std::string, std::less<>>& flags() {
  static const auto* const all = new std::set<std::string, std::less<>>{
      "--standalone",        "--module", "-m",    "--no-python", "--run-path", "--use-env",
      "--numa-binding-auto", "-h",       "--help"};
  return *all;
}

Error invalid_torchrun(std::string message) {
  return {Code::invalid, "torchrun: " + std::move(message)};
}

// Options may be written with '-' or '_'.
std::string canonical(std::string_view option) {
  std::string name(option);
  std::ranges::replace(name, '_', '-');
  return name;
}

Result<int> whole_number(std::string_view option, const std::string& input) {
  int number = 0;
  const auto* const end = input.data() + input.size();
  const auto [stop, failure] = std::from_chars(input.data(), end, number);
  if (failure != std::errc() || stop != end)
    return invalid_torchrun(format("{} must be a number, got '{}'", option, input));
  return number;
}

// The number of words that name the launcher itself.
std::size_t launcher_words(const std::vector<ShellWord>& words) {
  const auto name_of = [](const std::string& path) {
    return path.substr(path.find_last_of('/') + 1);
  };
  if (!words.empty() && name_of(words[0].text) == "torchrun") return 1;
  if (words.size() >= 3 && name_of(words[0].text).starts_with("python") && words[1].text == "-m" &&
      std::ranges::find(kModules, words[2].text) != kModules.end())
    return 3;
  return 0;
}

struct TorchrunOptions {
  bool is_module = false, is_program = false;
};

Result<int> processes(const ShellWord& value, std::optional<int> gpus) {
  const bool is_automatic = value.text == "gpu" || value.text == "auto" || value.text == "cpu";
  if (!is_automatic && !value.unknown) return whole_number("--nproc-per-node", value.text);
  if (gpus) return *gpus;
  return invalid_torchrun(format("--nproc-per-node {} has no number here: give it by -g",
                                 value.unknown.value_or(value.text)));
}

Result<void> apply_option(const std::string& option, const ShellWord& value,
                          std::optional<int> gpus, TakenRun& run) {
  if (option == "--nproc-per-node") {
    run.spec.devices = TRY(processes(value, gpus));
  } else if (option == "--nnodes") {
    if (value.unknown)
      return invalid_torchrun(
          format("--nnodes {} has no number here: give it by -n", *value.unknown));
    const auto colon = value.text.find(':');
    run.spec.nodes = TRY(whole_number(option, value.text.substr(colon + 1)));
    if (colon != std::string::npos)
      run.left_out.push_back(
          format("torchrun --nnodes {}: the run has {} nodes", value.text, run.spec.nodes));
  } else if (option == "--max-restarts" && !value.unknown) {
    run.spec.rank_loss_retries = TRY(whole_number(option, value.text));
  }
  return {};
}

}  // namespace

bool is_torchrun(const std::vector<ShellWord>& words) { return launcher_words(words) > 0; }

std::vector<ShellWord> as_words(const std::vector<std::string>& texts) {
  std::vector<ShellWord> words;
  for (const std::string& one : texts) words.push_back({.text = one});
  return words;
}

Result<void> apply_torchrun(const std::vector<ShellWord>& words, std::optional<int> gpus,
                            TakenRun& run) {
  TorchrunOptions found;
  std::size_t at = launcher_words(words);
  const std::string python = at == 3 ? words[0].text : "python";
  run.spec.nodes = run.spec.devices = 1;  // torchrun's own defaults
  while (at < words.size() && words[at].text.starts_with('-') && words[at].text != "--") {
    const std::string_view word = words[at].text;
    const auto equals = word.find('=');
    const std::string option = canonical(word.substr(0, equals));
    ++at;
    found.is_module |= option == "-m" || option == "--module";
    found.is_program |= option == "--no-python";
    if (flags().contains(option)) continue;
    if (equals != std::string_view::npos) {
      TRY(apply_option(option, {std::string(word.substr(equals + 1)), words[at - 1].unknown}, gpus,
                       run));
      continue;
    }
    if (at == words.size()) return invalid_torchrun(format("{} has no value", option));
    TRY(apply_option(option, words[at++], gpus, run));
  }
  if (at < words.size() && words[at].text == "--") ++at;
  if (at == words.size()) return invalid_torchrun("it names no script");
  auto program = TRY(known_texts({words.begin() + static_cast<std::ptrdiff_t>(at), words.end()}));
  run.spec.command.clear();
  if (!found.is_program) run.spec.command.push_back(python);
  if (found.is_module) run.spec.command.emplace_back("-m");
  std::ranges::move(program, std::back_inserter(run.spec.command));
  return {};
}

}  // namespace lockstep::job_files
