#include "apps/access/node_argument.h"

#include <algorithm>
#include <charconv>

#include "apps/cli/subcommand.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

constexpr int kNodeIndexMax = 999'999'999;

bool is_number(std::string_view words) {
  return !words.empty() && words.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

Result<NodeOfRun> node_argument(const std::string& words) {
  const auto last = words.rfind('/');
  const auto slashes = std::ranges::count(words, '/');
  const bool names_node = slashes == 2 || (slashes == 1 && is_number(words.substr(0, last)));
  if (!names_node) return NodeOfRun{TRY(run_argument(words)), 0};
  const std::string digits = words.substr(last + 1);
  int index = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (!is_number(digits) || error != std::errc() || index > kNodeIndexMax)
    return Error{Code::invalid,
                 format("'{}' is not a node's number; name a node such as demo/42/1", digits)};
  return NodeOfRun{TRY(run_argument(words.substr(0, last))), index};
}

CLI::Option* add_node_argument(CLI::App& command, std::string& words) {
  return command
      .add_option("run", words,
                  "the run, such as demo/42, and perhaps a node of it, such as demo/42/1; without "
                  "one: node 0")
      ->required()
      ->type_name(kRunValue);
}

std::string NodeOfRun::name() const { return format("{}/{}", text(run), index); }

}  // namespace lockstep::cli
