#include "platform/server/ask.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/format.h"

namespace lockstep {

namespace {

constexpr double kPatienceSeconds = 30;

template <class T>
std::optional<T> number_in(std::string_view words) {
  T number{};
  auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), number);
  if (error != std::errc() || end != words.data() + words.size()) return std::nullopt;
  return number;
}

Error not_found(Error error) { return {Code::not_found, std::move(error.message)}; }

}  // namespace

Result<RunId> Ask::run() const {
  auto run = parse_run_id(format("{}/{}", words_.at(0), words_.at(1)));
  return run ? run : not_found(run.error());
}

Result<NodeId> Ask::node() const { return node_of(words_); }

Result<NodeId> node_of(const std::vector<std::string>& words) {
  auto node =
      parse_node_id(format("{}/{}.{}/{}", words.at(0), words.at(1), words.at(2), words.at(3)));
  return node ? node : not_found(node.error());
}

Result<void> Ask::allow_query(std::initializer_list<std::string_view> names) const {
  for (const auto& [name, value] : request_.query)
    if (std::ranges::find(names, name) == names.end())
      return unknown_name(name, names).within("the query");
  return {};
}

std::optional<std::string> Ask::query(std::string_view name) const {
  const auto found = request_.query.find(std::string(name));
  if (found == request_.query.end()) return std::nullopt;
  return found->second;
}

Result<std::optional<std::int64_t>> Ask::integer(std::string_view name, std::int64_t least,
                                                 std::int64_t most) const {
  const auto words = query(name);
  if (!words) return std::optional<std::int64_t>();
  const auto number = number_in<std::int64_t>(*words);
  if (!number || *number < least || *number > most)
    return Error{Code::invalid, format("the query's {} must be a whole number from {} to {}, got "
                                       "'{}'",
                                       name, least, most, *words)};
  return number;
}

Result<Duration> Ask::wait() const {
  const auto words = query("wait");
  if (!words) return Duration(0);
  const auto seconds = number_in<double>(*words);
  if (!seconds || !std::isfinite(*seconds) || *seconds < 0)
    return Error{Code::invalid, format("the query's wait must be seconds, got '{}'", *words)};
  return patience_of(*seconds);
}

Duration patience_of(double seconds) {
  if (std::isnan(seconds)) return Duration(0);
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, kPatienceSeconds)));
}

}  // namespace lockstep
