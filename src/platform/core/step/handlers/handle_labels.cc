#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/handlers/event_handlers.h"
#include "platform/core/step/handlers/host_labels.h"

namespace lockstep::step {
namespace {

constexpr std::size_t kValuesNamed = 10;

// "hosts have rack=a1, rack=a2", or "no host has a label rack".
std::string values_of(const map::ClusterMap& map, const std::string& key) {
  std::set<std::string> values;
  for (const map::Host* host : map::hosts(map))
    if (const auto found = host->labels.find(key); found != host->labels.end())
      values.insert(found->second);
  if (values.empty()) return format("no host has a label {}", key);
  std::string text;
  std::size_t count = 0;
  for (const std::string& value : values) {
    if (++count > kValuesNamed) return text + " and more";
    text += format("{}{}={}", text.empty() ? "hosts have " : ", ", key, value);
  }
  return text;
}

std::string change_text(const map::Labels& labels) {
  std::string text;
  for (const auto& [key, value] : labels)
    text += format("{}{}", text.empty() ? "" : ", ",
                   value.empty() ? "no label " + key : format("label {}={}", key, value));
  return text;
}

}  // namespace

Result<void> check_labels_exist(const map::ClusterMap& map, const model::Needs& needs) {
  if (!needs.labels || needs.labels->empty()) return {};
  const auto all = map::hosts(map);
  if (std::ranges::any_of(
          all, [&](const map::Host* host) { return map::has_labels(host->labels, *needs.labels); }))
    return {};
  std::string known;
  for (const auto& [key, value] : *needs.labels)
    known += format("{}{}", known.empty() ? "" : "; ", values_of(map, key));
  return Error{Code::invalid,
               format("needs: labels: no host has {}: {}; `lockstep host ls` lists them",
                      map::labels_text(*needs.labels), known)};
}

Result<void> handle_event(Draft& draft, const model::LabelHost& event) {
  if (!draft.hosts_make_map())
    return Error{Code::invalid,
                 "the labels of this cluster's hosts are those of its map file: write them there, "
                 "as `labels` of the host"};
  const model::HostRow* found = draft.hosts.find(event.host);
  if (!found || !model::has_joined(*found))
    return Error{Code::not_found,
                 format("no host '{}' has joined; `lockstep host ls` lists those that have",
                        one_line(event.host))};
  map::Labels labels = found->labels;
  for (const auto& [key, value] : event.labels)
    if (value.empty())
      labels.erase(key);
    else
      labels[key] = value;
  TRY(map::check_labels(labels));
  if (labels == found->labels) return {};
  model::HostRow& host = draft.hosts.edit(event.host);
  host.labels = std::move(labels);
  model::add_audit_entry(
      host.audit,
      {.time = draft.now(), .by = one_line(event.by), .what = one_line(change_text(event.labels))});
  if (host.facts) draft.update_map();
  return {};
}

}  // namespace lockstep::step
