#include "platform/engine/slurm/slurm_output.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "base/format.h"
#include "platform/engine/slurm/slurm_commands.h"

namespace lockstep::engine {
namespace {

// No machine has more, and a damaged list must not take all memory.
constexpr std::size_t kHostListMax = 100'000;

template <class Number>
std::optional<Number> whole_of(std::string_view text) {
  Number number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string_view> split_at(std::string_view text, char separator,
                                       std::size_t parts_max = std::string_view::npos) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < parts_max) {
    const std::size_t end = text.find(separator);
    if (end == std::string_view::npos) break;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string> texts_of(const std::vector<std::string_view>& parts) {
  return {parts.begin(), parts.end()};
}

// Each line with this many fields; the last one may contain the separator.
template <class Visit>
void for_each_row(std::string_view output, std::size_t fields, const Visit& visit) {
  for (const std::string_view line : split_at(output, '\n'))
    if (const auto parts = split_at(line, '|', fields); parts.size() == fields) visit(parts);
}

// Commas outside of brackets.
std::vector<std::string_view> host_list_items(std::string_view list) {
  std::vector<std::string_view> items;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') ++depth;
    if (i < list.size() && list[i] == ']') --depth;
    if (i < list.size() && (list[i] != ',' || depth > 0)) continue;
    if (i > begin) items.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  return items;
}

// "1-3" or "07": the numbers keep their leading zeros.
std::vector<std::string> numbers_of_range(std::string_view range) {
  const auto ends = split_at(range, '-', 2);
  const auto first = whole_of<std::size_t>(ends.front());
  const auto last = whole_of<std::size_t>(ends.back());
  if (!first || !last || *last < *first || *last - *first >= kHostListMax) return {};
  std::vector<std::string> numbers;
  for (std::size_t number = *first; number <= *last; ++number)
    numbers.push_back(format("{:0{}}", number, ends.front().size()));
  return numbers;
}

void expand_item(const std::string& prefix, std::string_view rest,
                 std::vector<std::string>& names) {
  const std::size_t open = rest.find('['), close = rest.find(']');
  if (names.size() >= kHostListMax) return;
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    names.push_back(prefix + std::string(rest));
    return;
  }
  const std::string before = prefix + std::string(rest.substr(0, open));
  for (const std::string_view range : split_at(rest.substr(open + 1, close - open - 1), ','))
    for (const std::string& number : numbers_of_range(range))
      expand_item(before + number, rest.substr(close + 1), names);
}

// The value of " Name=" in a line of scontrol; it has no spaces.
std::string_view value_in(std::string_view line, std::string_view name) {
  for (const std::string_view word : split_at(line, ' '))
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return word.substr(name.size() + 1);
  return {};
}

// "gpu:a100:4(S:0-1),nic:2" has one.
std::vector<SlurmGpus> gpu_items(std::string_view gres) {
  std::vector<SlurmGpus> items;
  while (!gres.empty()) {
    const std::size_t end = std::min(gres.find(','), gres.size());
    std::string_view item = gres.substr(0, end);
    gres.remove_prefix(std::min(end + 1, gres.size()));
    item = item.substr(0, item.find('('));
    if (!item.starts_with("gpu:")) continue;
    const auto parts = split_at(item, ':');
    items.push_back({.type = parts.size() > 2 ? std::string(parts[1]) : "",
                     .count = whole_of<int>(parts.back()).value_or(0)});
  }
  return items;
}

}  // namespace

std::vector<SlurmJob> parse_slurm_jobs(std::string_view output) {
  std::vector<SlurmJob> jobs;
  for_each_row(output, 7, [&](const auto& row) {
    const auto id = whole_of<std::int64_t>(row[0]);
    if (!id) return;
    const auto start = whole_of<std::int64_t>(row[5]);
    jobs.push_back(
        {.id = *id,
         .state = std::string(row[1]),
         .reason = std::string(row[2]),
         .hosts = expand_host_list(row[3]),
         .host_count = whole_of<int>(row[4]).value_or(0),
         .expected_start = start ? std::optional(Time(std::chrono::seconds(*start))) : std::nullopt,
         .comment = std::string(row[6])});
  });
  return jobs;
}

std::vector<SlurmStep> parse_slurm_steps(std::string_view output) {
  std::vector<SlurmStep> steps;
  for_each_row(output, 3, [&](const auto& row) {
    const auto id = split_at(row[0], '.', 2);
    const auto job = whole_of<std::int64_t>(id.front());
    if (job && id.size() == 2)
      steps.push_back({.job = *job, .number = std::string(id[1]), .name = std::string(row[1])});
  });
  return steps;
}

std::vector<SlurmHost> parse_slurm_hosts(std::string_view output) {
  std::vector<SlurmHost> hosts;
  std::map<std::string, std::size_t, std::less<>> place_of;
  for_each_row(output, 9, [&](const auto& row) {
    const auto [place, is_new] = place_of.emplace(row[0], hosts.size());
    if (!is_new) {
      hosts[place->second].partitions.emplace_back(row[6]);
      return;
    }
    const std::size_t letters = std::min(row[1].find_first_of("*~#!%$@^-+"), row[1].size());
    hosts.push_back({.name = std::string(row[0]),
                     .address = std::string(row[5]),
                     .state = std::string(row[1].substr(0, letters)),
                     .flags = std::string(row[1].substr(letters)),
                     .reason = row[8] == "none" ? "" : std::string(row[8]),
                     .gpus = gpu_count(row[2]),
                     .cores = whole_of<int>(row[3]).value_or(0),
                     .gpu_types = gpu_types(row[2]),
                     .memory_mib = whole_of<std::int64_t>(row[4]).value_or(0),
                     .partitions = {std::string(row[6])},
                     .features = row[7] == "(null)" ? std::vector<std::string>()
                                                    : texts_of(split_at(row[7], ','))});
  });
  return hosts;
}

std::string default_slurm_partition(std::string_view output) {
  for (const std::string_view line : split_at(output, '\n'))
    if (line.ends_with('*')) return std::string(line.substr(0, line.size() - 1));
  return "";
}

std::vector<SlurmSwitch> parse_slurm_switches(std::string_view output) {
  std::vector<SlurmSwitch> switches;
  for (const std::string_view line : split_at(output, '\n')) {
    std::string_view name = value_in(line, "SwitchName");
    if (name.empty()) name = value_in(line, "BlockName");
    if (name.empty()) continue;
    switches.push_back({.name = std::string(name),
                        .level = whole_of<int>(value_in(line, "Level")).value_or(0),
                        .hosts = expand_host_list(value_in(line, "Nodes")),
                        .switches = expand_host_list(value_in(line, "Switches"))});
  }
  return switches;
}

Result<std::int64_t> parse_submitted_job(std::string_view output) {
  const std::string_view last = split_at(output, '\n').back();
  if (const auto job = whole_of<std::int64_t>(last.substr(0, last.find(';')))) return *job;
  return Error{Code::unavailable,
               format("sbatch printed no number of a job: {}", slurm_words(output))};
}

std::vector<std::string> expand_host_list(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string_view item : host_list_items(list)) expand_item("", item, names);
  return names;
}

int gpu_count(std::string_view gres) {
  int count = 0;
  for (const SlurmGpus& item : gpu_items(gres)) count += item.count;
  return count;
}

std::vector<SlurmGpus> gpu_types(std::string_view gres) {
  std::vector<SlurmGpus> types;
  for (SlurmGpus& item : gpu_items(gres)) {
    const auto known = std::ranges::find(types, item.type, &SlurmGpus::type);
    if (known != types.end())
      known->count += item.count;
    else
      types.push_back(std::move(item));
  }
  return types;
}

const SlurmHost* find_slurm_host(const std::vector<SlurmHost>& hosts, std::string_view name) {
  const auto found = std::ranges::find_if(hosts, [&](const SlurmHost& host) {
    return host.name == name || (!host.whole.empty() && host.whole == name);
  });
  return found == hosts.end() ? nullptr : &*found;
}

bool is_slurm_host_down(const SlurmHost& host) {
  return host.state.starts_with("down") || host.flags.find('*') != std::string::npos;
}

std::string why_slurm_closed(const SlurmHost& host) {
  static constexpr std::array<std::string_view, 10> kClosed = {
      "down", "drain", "fail", "maint", "unk", "inval", "future", "reboot", "blocked", "external"};
  const bool is_closed =
      std::ranges::any_of(kClosed, [&](auto word) { return host.state.starts_with(word); });
  if (!is_closed && host.flags.find_first_of("*$^") == std::string::npos) return "";
  const std::string silent =
      host.flags.find('*') != std::string::npos ? " and does not respond" : "";
  return format("Slurm says that it is {}{}{}", host.state, silent,
                host.reason.empty() ? "" : ": " + host.reason);
}

}  // namespace lockstep::engine
