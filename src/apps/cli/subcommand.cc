#include "apps/cli/subcommand.h"

#include <charconv>

namespace lockstep::cli {

Result<model::RunId> run_argument(const std::string& words) {
  if (!words.empty() && words.find_first_not_of("0123456789") == std::string::npos)
    return model::parse_run_id("default/" + words);
  return model::parse_run_id(words);
}

CLI::Option* add_run_argument(CLI::App& command, std::string& words) {
  return command
      .add_option("run", words, "the run, such as demo/42 (42 alone: in the project `default`)")
      ->required()
      ->type_name(kRunValue);
}

Result<std::vector<model::RunId>> run_arguments(const std::vector<std::string>& words) {
  std::vector<model::RunId> runs;
  for (const std::string& word : words) runs.push_back(TRY(run_argument(word)));
  return runs;
}

CLI::Option* add_run_arguments(CLI::App& command, std::vector<std::string>& words) {
  return command
      .add_option("run", words, "runs, such as demo/42 (42 alone: in the project `default`)")
      ->required()
      ->type_name(kRunValue);
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  auto wrong = [least, most](std::string& words) -> std::string {
    std::int64_t number = 0;
    auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), number);
    bool whole = error == std::errc() && end == words.data() + words.size();
    if (whole && number >= least && number <= most) return "";
    return format("expected a whole number from {} to {}, got '{}'", least, most, words);
  };
  return {wrong, ""};
}

Result<void> check_rank(const api::RunView& run, std::optional<int> rank) {
  int ranks = model::rank_count(run.spec);
  if (!run.launcher.empty()) return {};  // any rank may have reported
  if (!rank || (*rank >= 0 && *rank < ranks)) return {};
  return Error{Code::not_found,
               format("{} has no rank {}; its ranks are 0 to {}", run.id, *rank, ranks - 1)};
}

Result<void> check_node(const api::RunView& run, std::optional<int> node) {
  const int nodes = run.spec.nodes;
  if (!node || (*node >= 0 && *node < nodes)) return {};
  return Error{Code::not_found,
               format("{} has no node {}; its nodes are 0 to {}", run.id, *node, nodes - 1)};
}

Result<Duration> duration_option(std::string_view option, const std::string& words) {
  auto duration = parse_duration(words);
  return duration ? duration : std::move(duration).error().with_context(option);
}

}  // namespace lockstep::cli
