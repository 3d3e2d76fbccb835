#include "apps/shell/shell_target.h"

#include <charconv>

#include "apps/access/node_argument.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kSuffix = ".lockstep";
constexpr std::string_view kAt = ".at.";

Result<int> node_number(const std::string& word) {
  int number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_whole = error == std::errc() && end == word.data() + word.size() && number >= 0;
  return is_whole ? Result<int>(number) : Error{Code::invalid, "no number"};
}

Error no_alias(const std::string& alias) {
  return {Code::invalid,
          format("'{}' names no node of a run: write NUMBER[-NODE][.PROJECT].lockstep, "
                 "such as 42-1.demo.lockstep",
                 alias)};
}

}  // namespace

Result<ShellTarget> shell_target(const std::string& words) {
  const NodeOfRun node = TRY(node_argument(words));
  return ShellTarget{.run = node.run, .node = node.index};
}

std::string ssh_alias(const ShellTarget& target) {
  std::string alias = format("{}", target.run.number);
  if (target.node != 0) alias += format("-{}", target.node);
  if (target.run.project != "default" || !target.profile.empty()) alias += "." + target.run.project;
  if (!target.profile.empty()) alias += std::string(kAt) + target.profile;
  return alias + std::string(kSuffix);
}

Result<ShellTarget> parse_ssh_alias(const std::string& alias) {
  // It becomes the name of files.
  if (alias.find_first_not_of(
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") != std::string::npos)
    return no_alias(alias);
  std::string rest = alias;
  if (rest.ends_with(kSuffix)) rest.resize(rest.size() - kSuffix.size());
  ShellTarget target;
  if (const auto at = rest.rfind(kAt); at != std::string::npos) {
    target.profile = rest.substr(at + kAt.size());
    rest.resize(at);
  }
  const std::size_t dot = rest.find('.');
  std::string number = rest.substr(0, dot);
  if (const auto dash = number.find('-'); dash != std::string::npos) {
    const auto node = node_number(number.substr(dash + 1));
    if (!node) return no_alias(alias);
    target.node = *node;
    number.resize(dash);
  }
  const std::string project = dot == std::string::npos ? "default" : rest.substr(dot + 1);
  const auto run = model::parse_run_id(project + "/" + number);
  if (!run) return no_alias(alias);
  target.run = *run;
  return target;
}

}  // namespace lockstep::cli
