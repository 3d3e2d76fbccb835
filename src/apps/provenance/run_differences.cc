#include "apps/provenance/run_differences.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "base/format.h"
#include "platform/api/json.h"
#include "text/shell_words.h"

namespace lockstep::cli {
namespace {

using Values = std::map<std::string, std::string>;

std::string value_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dump_json(value);
}

// A section of the spec is a value for each of its fields: "needs.cores".
void add_values(const std::string& prefix, const Json& fields, Values& values) {
  for (const auto& [name, value] : fields.items()) {
    if (value.is_object())
      add_values(prefix + name + ".", value, values);
    else
      values[prefix + name] = value_text(value);
  }
}

// Without the command, which is compared word by word, and the hidden values of env.
Values spec_values(const api::RunView& run) {
  Json spec = without_nulls(to_json(run.spec));
  spec.erase("command");
  spec.erase("env");
  Values values;
  add_values("", spec, values);
  return values;
}

// A daemon without digests says only which variables there are.
Values env_values(const api::RunView& run, bool with_digests) {
  Values values;
  for (const auto& [name, hidden] : run.spec.env) {
    const auto digest = run.env_digests.find(name);
    values["env." + name] = with_digests && digest != run.env_digests.end()
                                ? format("{} {}", hidden, digest->second)
                                : hidden;
  }
  return values;
}

Values origin_values(const api::RunView& run) {
  Values values;
  add_values("origin.", without_nulls(to_json(run)["origin"]), values);
  return values;
}

Values result_values(const api::RunView& run) {
  Values values = {{"state", std::string(text(run.state))},
                   {"attempts", format("{}", run.attempts.size())},
                   {"running_seconds", format("{}", run.running_seconds)}};
  if (!run.reason.empty()) values["reason"] = run.reason;
  for (const auto& [key, value] : run.tags) values["tags." + key] = value;
  if (!run.note.empty()) values["note"] = run.note;
  if (run.progress) values["step"] = format("{}", run.progress->step);
  for (const auto& [name, value] : run.latest) values["latest." + name] = format("{}", value);
  return values;
}

std::optional<std::string> value_in(const Values& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

void compare(const Values& first, const Values& second, std::vector<RunDifference>& differences) {
  Values names = first;
  names.insert(second.begin(), second.end());
  for (const auto& [name, ignored] : names) {
    RunDifference difference{name, value_in(first, name), value_in(second, name)};
    if (difference.first != difference.second) differences.push_back(std::move(difference));
  }
}

using Words = std::vector<std::string>;

// The lengths of the longest common subsequences of the words from i on and those from j on.
std::vector<std::vector<std::size_t>> common_lengths(const Words& first, const Words& second) {
  std::vector lengths(first.size() + 1, std::vector<std::size_t>(second.size() + 1));
  for (std::size_t i = first.size(); i-- > 0;)
    for (std::size_t j = second.size(); j-- > 0;)
      lengths[i][j] = first[i] == second[j] ? lengths[i + 1][j + 1] + 1
                                            : std::max(lengths[i + 1][j], lengths[i][j + 1]);
  return lengths;
}

std::optional<std::string> words_text(const Words& words) {
  return words.empty() ? std::nullopt : std::optional(shell_words(words));
}

// Words between two common ones are one difference: `--lr 1e-3` for `--lr 3e-4` is command[3].
void compare_commands(const Words& first, const Words& second,
                      std::vector<RunDifference>& differences) {
  const auto lengths = common_lengths(first, second);
  std::size_t i = 0, j = 0;
  while (i < first.size() || j < second.size()) {
    if (i < first.size() && j < second.size() && first[i] == second[j]) {
      ++i;
      ++j;
      continue;
    }
    const std::string name = format("command[{}]", i);
    Words removed, added;
    while ((i < first.size() || j < second.size()) &&
           (i == first.size() || j == second.size() || first[i] != second[j])) {
      if (j == second.size() || (i < first.size() && lengths[i + 1][j] >= lengths[i][j + 1]))
        removed.push_back(first[i++]);
      else
        added.push_back(second[j++]);
    }
    differences.push_back({name, words_text(removed), words_text(added)});
  }
}

using Differences = std::vector<RunDifference>;

// In the order in which `lockstep diff` shows them.
std::array<Differences, 5> sections_of(const api::RunView& first, const api::RunView& second) {
  const bool with_digests = !first.env_digests.empty() && !second.env_digests.empty();
  std::array<Differences, 5> sections;
  compare_commands(first.spec.command, second.spec.command, sections[0]);
  compare(spec_values(first), spec_values(second), sections[1]);
  compare(env_values(first, with_digests), env_values(second, with_digests), sections[2]);
  compare(origin_values(first), origin_values(second), sections[3]);
  compare(result_values(first), result_values(second), sections[4]);
  return sections;
}

// A field that differs in several runs is one row. Two runs may differ from the first in other
// words of the command that begin at the same one: these are rows of their own.
void add_differences(std::size_t run, std::size_t runs, Differences differences,
                     std::vector<ComparedField>& rows) {
  for (RunDifference& each : differences) {
    auto row = std::ranges::find_if(rows, [&](const ComparedField& other) {
      return other.name == each.name && other.values.front() == each.first;
    });
    if (row == rows.end()) {
      rows.push_back({each.name, std::vector(runs, each.first)});
      row = std::prev(rows.end());
    }
    row->values[run] = std::move(each.second);
  }
}

}  // namespace

RunDifferences differences_of(const api::RunView& first, const api::RunView& second) {
  RunDifferences all{.first = first.id, .second = second.id, .differences = {}};
  for (Differences& section : sections_of(first, second))
    std::ranges::move(section, std::back_inserter(all.differences));
  return all;
}

RunComparison compare_runs(const std::vector<api::RunView>& runs) {
  RunComparison all;
  for (const api::RunView& run : runs) all.runs.push_back(run.id);
  std::array<std::vector<ComparedField>, 5> rows;
  for (std::size_t run = 1; run < runs.size(); ++run) {
    auto sections = sections_of(runs.front(), runs[run]);
    for (std::size_t i = 0; i < sections.size(); ++i)
      add_differences(run, runs.size(), std::move(sections[i]), rows[i]);
  }
  for (auto& section : rows) std::ranges::move(section, std::back_inserter(all.differences));
  return all;
}

}  // namespace lockstep::cli
