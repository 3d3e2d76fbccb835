#include "comm/flight/torch_dump/torch_dump.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/format.h"
#include "comm/flight/torch_dump/pickle.h"
#include "comm/flight/torch_dump/torch_operation.h"
#include "comm/group/group_ranks.h"

namespace lockstep::comm::torch_dump {
namespace {

constexpr int kTorchRanksMax = 1 << 24;
constexpr std::string_view kWorld = "default_pg";

// Operations of a process group while its entries are read.
struct Group {
  FlightLog log;
  std::vector<std::uint64_t> batches;  // for each operation: the number of its batch
  bool has_starts = false;
};

const Json* member(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? nullptr : &*found;
}

std::string text_of(const Json* value) {
  return value != nullptr && value->is_string() ? printable(value->get<std::string>()) : "";
}

// Its "ranks" are a text: "[0, 1, 2]".
std::vector<int> members_of(const Json& dump, const std::string& name, int rank) {
  const Json* const groups = member(dump, "pg_config");
  const Json* const group = groups == nullptr ? nullptr : member(*groups, name.c_str());
  const std::string ranks = group == nullptr ? "" : text_of(member(*group, "ranks"));
  std::vector<int> members;
  for (const char* at = ranks.data(); at != ranks.data() + ranks.size();) {
    int number = 0;
    const auto read = std::from_chars(at, ranks.data() + ranks.size(), number);
    if (read.ec == std::errc() && number >= 0 && number < kTorchRanksMax) members.push_back(number);
    at = read.ec == std::errc() ? read.ptr : at + 1;
  }
  return std::ranges::find(members, rank) == members.end() ? std::vector<int>() : members;
}

std::string display_name(const std::string& name, const std::string& description,
                         const std::vector<int>& members) {
  if (description == kWorld) return "world of torch";
  const bool is_described = !description.empty() && description != "undefined";
  const auto group =
      is_described ? format("torch's group {} ({})", name, description) : "torch's group " + name;
  return members.empty() ? group : text(GroupRanks{.name = group, .ranks = members});
}

Group new_group(const Json& dump, int rank, const std::string& name, const std::string& about) {
  Group group;
  FlightLog& log = group.log;
  log.rank = rank;
  log.members = members_of(dump, name, rank);
  log.size = std::max(1, static_cast<int>(log.members.size()));
  log.group = format("torch {} {}", name, about);
  log.name = display_name(name, about, log.members);
  log.ends_are_exact = false;
  return group;
}

// The parts of the batch that ends here: the last operations with its number.
void end_batch(const TorchEntry& whole, Group& group) {
  auto& operations = group.log.operations;
  std::size_t first = operations.size();
  while (first > 0 && group.batches[first - 1] == whole.batch &&
         operations[first - 1].is_collective() != whole.is_point_to_point)
    --first;
  for (std::size_t i = first; i < operations.size(); ++i)
    take_state(whole.operation, operations[i]);
  if (whole.is_point_to_point) return;
  if (first == operations.size()) {
    operations.push_back(whole.operation);
    group.batches.push_back(whole.batch);
    return;
  }
  for (std::size_t i = first + 1; i < operations.size(); ++i)
    operations[first].bytes += operations[i].bytes;
  operations.resize(first + 1);
  group.batches.resize(first + 1);
}

void add(TorchEntry entry, Group& group) {
  group.has_starts = group.has_starts || entry.has_start;
  FlightOperation& operation = entry.operation;
  if (entry.is_batch) return end_batch(entry, group);
  const auto& members = group.log.members;
  if (operation.peer && *operation.peer < static_cast<int>(members.size()))
    operation.peer = members[static_cast<std::size_t>(*operation.peer)];
  group.log.operations.push_back(std::move(operation));
  group.batches.push_back(entry.batch);
}

// Where no starts are noted, all would seem to be queued.
void enter_oldest_open(FlightLog& log) {
  FlightOperation* oldest = nullptr;
  for (FlightOperation& operation : log.operations)
    if (operation.is_collective() && operation.state == FlightState::queued &&
        (oldest == nullptr || operation.sequence < oldest->sequence))
      oldest = &operation;
  if (oldest == nullptr) return;
  oldest->state = FlightState::started;
  oldest->started = oldest->enqueued;
}

FlightLog finished(Group group) {
  FlightLog& log = group.log;
  if (!group.has_starts) enter_oldest_open(log);
  if (!log.operations.empty()) log.recorded_since = log.operations.front().enqueued;
  return std::move(log);
}

Result<std::vector<FlightLog>> logs_of(const Json& dump, int rank) {
  const auto version = text_of(member(dump, "version"));
  if (!version.starts_with("2."))
    return Error{Code::corrupt,
                 format("it has version \"{}\" of torch's dumps, this Lockstep reads 2", version)};
  const Json* const entries = member(dump, "entries");
  if (entries == nullptr || !entries->is_array())
    return Error{Code::corrupt, "it has no entries: make the dump with its collectives"};
  std::map<std::pair<std::string, std::string>, Group> groups;
  std::uint64_t unreadable = 0;
  for (const Json& each : *entries) {
    const Json* const names = member(each, "process_group");
    auto entry = read_torch_entry(each);
    if (!entry || names == nullptr || !names->is_array() || names->size() != 2) {
      ++unreadable;
      continue;
    }
    const std::pair key(text_of(&(*names)[0]), text_of(&(*names)[1]));
    auto found = groups.find(key);
    if (found == groups.end())
      found = groups.emplace(key, new_group(dump, rank, key.first, key.second)).first;
    add(*std::move(entry), found->second);
  }
  std::vector<FlightLog> logs;
  for (auto& [key, group] : groups) logs.push_back(finished(std::move(group)));
  if (logs.empty())
    return Error{Code::corrupt,
                 format("it has no operation that can be read ({} cannot be)", unreadable)};
  logs.front().unreadable = unreadable;
  return logs;
}

}  // namespace

std::optional<int> rank_of_torch_dump(std::string_view file_name) {
  if (file_name.ends_with(".json")) file_name.remove_suffix(5);
  const auto last = file_name.find_last_not_of("0123456789");
  if (last == std::string_view::npos || file_name.starts_with('.')) return std::nullopt;
  const auto digits = file_name.substr(last + 1);
  int rank = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (digits.empty() || read.ec != std::errc() || rank >= kTorchRanksMax) return std::nullopt;
  return rank;
}

Result<std::vector<FlightLog>> parse_torch_dump(std::string_view bytes, int rank) {
  return logs_of(TRY(bytes.starts_with('{') ? parse_json(bytes) : parse_pickle(bytes)), rank);
}

void complete_torch_groups(std::vector<FlightLog>& logs) {
  std::map<std::string, std::set<int>> ranks;
  for (const FlightLog& log : logs)
    if (log.members.empty()) ranks[log.group].insert(log.rank);
  for (FlightLog& log : logs) {
    if (!log.members.empty()) continue;
    const auto& all = ranks.at(log.group);
    log.members.assign(all.begin(), all.end());
    log.size = static_cast<int>(all.size());
  }
}

}  // namespace lockstep::comm::torch_dump
