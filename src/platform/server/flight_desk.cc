#include "platform/server/flight_desk.h"

#include <chrono>

#include "base/files.h"
#include "base/log.h"
#include "text/convert.h"

namespace lockstep {
namespace {

constexpr Duration kAskMost = std::chrono::seconds(30);
constexpr Duration kAskTogether = std::chrono::seconds(1);
// Of attempts and nodes, in memory. Who is forgotten delivers once more.
constexpr std::size_t kKnownMost = 10'000;
constexpr std::size_t kFileMost = 4 << 20;

// What is in the file.
struct Kept {
  Time delivered{};
  api::FlightDelivery delivery;

  static constexpr auto fields() {
    return record<Kept>(field("delivered", &Kept::delivered, "when it came"),
                        required(field("delivery", &Kept::delivery, "what came")));
  }
};

template <class Key>
std::optional<Time> time_of(const std::map<Key, Time>& times, const Key& key) {
  const auto found = times.find(key);
  return found == times.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

Time FlightDesk::ask(const AttemptId& attempt) {
  forget_some();
  const Time now = clock_.now();
  const auto before = time_of(asked_, attempt);
  if (before && now - *before < kAskTogether) return *before;
  return asked_[attempt] = now;
}

bool FlightDesk::wants(const Node& node) {
  const auto asked = time_of(asked_, node.id.attempt);
  if (asked && clock_.now() - *asked < kAskMost && !has_since(node.id, *asked)) return true;
  if (!all_ranks_ended(node) || settled_.contains(node.id)) return false;
  if (!is_here(node.id)) return true;
  settled_.insert(node.id);
  return false;
}

void FlightDesk::take(const Node& node, const api::FlightDelivery& delivery) {
  forget_some();
  const Time now = clock_.now();
  delivered_[node.id] = now;
  if (all_ranks_ended(node)) settled_.insert(node.id);
  if (delivery.records.empty()) return;  // what came before says more
  const NodeFiles files = files_of(node.id);
  auto kept = make_folders(files.folder);
  if (kept) kept = write_file(files.delivered_flight(), dump_json(to_json(Kept{now, delivery})));
  if (!kept) LS_LOG(warning, "flight records of {}: {}", text(node.id), kept.error().message);
}

bool FlightDesk::has_since(const NodeId& node, Time asked) const {
  const auto delivered = time_of(delivered_, node);
  return delivered && *delivered >= asked;
}

Result<api::FlightView> FlightDesk::view(const Node& node, Time asked) const {
  api::FlightView view{.node = node.id.index,
                       .host = node.host,
                       .asked = asked,
                       .delivered = {},
                       .left_out = 0,
                       .records = {}};
  const auto file = files_of(node.id).delivered_flight();
  const auto words = read_file(file, kFileMost);
  if (!words && words.error().code == Code::not_found) return view;
  if (!words) return words.error();
  auto kept = from_json<Kept>(TRY(parse_json(*words)));
  if (!kept) return std::move(kept).error().within(file.string());
  view.delivered = kept->delivered;
  view.left_out = kept->delivery.left_out;
  view.records = std::move(kept->delivery.records);
  return view;
}

NodeFiles FlightDesk::files_of(const NodeId& node) const {
  return {node_folder(home_, name_of(state_, node))};
}

bool FlightDesk::is_here(const NodeId& node) const {
  const auto files = list_folder(files_of(node).flight());
  return files && !files->empty();
}

void FlightDesk::forget_some() {
  if (asked_.size() > kKnownMost) asked_.clear();
  if (delivered_.size() > kKnownMost) delivered_.clear();
  if (settled_.size() > kKnownMost) settled_.clear();
}

}  // namespace lockstep
