#include "platform/core/model/ids.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "base/format.h"

namespace lockstep::model {
namespace {

constexpr std::size_t kNameLimit = 64;
constexpr std::size_t kGenerationDigits = 16;

bool letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool allowed(char c) { return letter_or_digit(c) || c == '-' || c == '_' || c == '.'; }

// Digits only, without leading zeros, so that each id has one spelling.
std::optional<std::int64_t> parse_number(std::string_view digits, std::int64_t least) {
  if (digits.empty() || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  std::int64_t number = 0;
  auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failure != std::errc() || number < least) return std::nullopt;
  return number;
}

std::optional<RunId> run_id(std::string_view input) {
  const auto slash = input.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto project = input.substr(0, slash);
  const auto number = parse_number(input.substr(slash + 1), 1);
  if (!number || !check_name("project", project)) return std::nullopt;
  return RunId{std::string(project), *number};
}

std::optional<AttemptId> attempt_id(std::string_view input) {
  const auto dot = input.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  auto run = run_id(input.substr(0, dot));
  const auto epoch = parse_number(input.substr(dot + 1), 1);
  if (!run || !epoch) return std::nullopt;
  return AttemptId{*std::move(run), *epoch};
}

std::optional<NodeId> node_id(std::string_view input) {
  const auto slash = input.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  auto attempt = attempt_id(input.substr(0, slash));
  const auto index = parse_number(input.substr(slash + 1), 0);
  if (!attempt || !index || *index > std::numeric_limits<int>::max()) return std::nullopt;
  return NodeId{*std::move(attempt), static_cast<int>(*index)};
}

template <class T>
Result<T> or_error(std::optional<T> id, std::string_view input, std::string_view what,
                   std::string_view example) {
  if (id) return *std::move(id);
  return Error{Code::invalid, format("'{}' is not {}, such as {}", input, what, example)};
}

// Names contain no colon.
std::string in_generation(const std::string& generation, const std::string& name) {
  return generation.empty() ? name : generation + ":" + name;
}

}  // namespace

std::string text(const RunId& id) { return format("{}/{}", id.project, id.number); }
std::string text(const AttemptId& id) { return format("{}.{}", text(id.run), id.epoch); }
std::string text(const NodeId& id) { return format("{}/{}", text(id.attempt), id.index); }

std::string text(const AttemptName& name) { return in_generation(name.generation, text(name.id)); }
std::string text(const NodeName& name) { return in_generation(name.generation, text(name.id)); }

Result<RunId> parse_run_id(std::string_view input) {
  return or_error(run_id(input), input, "a run", "demo/42");
}
Result<AttemptId> parse_attempt_id(std::string_view input) {
  return or_error(attempt_id(input), input, "an attempt", "demo/42.2");
}
Result<NodeId> parse_node_id(std::string_view input) {
  return or_error(node_id(input), input, "a node", "demo/42.2/0");
}

Result<NodeName> parse_node_name(std::string_view input) {
  const auto colon = input.find(':');
  if (colon == std::string_view::npos) return NodeName{"", TRY(parse_node_id(input))};
  NodeName name{std::string(input.substr(0, colon)), TRY(parse_node_id(input.substr(colon + 1)))};
  if (name.generation.empty())
    return Error{Code::invalid, format("'{}' names no generation before its ':'", input)};
  TRY(check_generation(name.generation));
  return name;
}

Result<void> check_generation(std::string_view generation) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (generation.empty()) return {};
  if (generation.size() == kGenerationDigits && std::ranges::all_of(generation, is_digit))
    return {};
  return Error{Code::invalid,
               format("generation: '{}' is not {} hex digits", generation, kGenerationDigits)};
}

Result<void> check_name(std::string_view what, std::string_view name) {
  if (name.empty()) return Error{Code::invalid, format("{}: must not be empty", what)};
  if (name.size() > kNameLimit)
    return Error{Code::invalid, format("{}: has {} characters, of which at most {} are allowed",
                                       what, name.size(), kNameLimit)};
  if (!letter_or_digit(name[0]) || !std::ranges::all_of(name, allowed))
    return Error{Code::invalid,
                 format("{}: '{}' must begin with a letter or digit and have only letters, digits, "
                        "'-', '_' and '.'",
                        what, name)};
  return {};
}

}  // namespace lockstep::model
