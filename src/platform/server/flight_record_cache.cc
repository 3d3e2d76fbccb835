#include "platform/server/flight_record_cache.h"

#include <chrono>

#include "base/log.h"
#include "base/os/files.h"
#include "text/convert.h"

namespace lockstep::server {
namespace {

constexpr Duration kRequestLifetime = std::chrono::seconds(30);
constexpr Duration kRequestInterval = std::chrono::seconds(1);
// Attempts and nodes in memory. A node that was dropped delivers once more.
constexpr std::size_t kKnownMost = 10'000;
constexpr std::size_t kDeliveryFileMax = 4 << 20;

// The content of the file.
struct StoredDelivery {
  Time delivered{};
  api::FlightDelivery delivery;

  static constexpr auto fields() {
    return record<StoredDelivery>(
        field("delivered", &StoredDelivery::delivered, "when it came"),
        required(field("delivery", &StoredDelivery::delivery, "what came")));
  }
};

template <class Key>
std::optional<Time> time_of(const std::map<Key, Time>& times, const Key& key) {
  const auto found = times.find(key);
  return found == times.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

Time FlightRecordCache::request(const model::AttemptId& attempt) {
  prune();
  const Time now = clock_.now();
  const auto before = time_of(requested_, attempt);
  if (before && now - *before < kRequestInterval) return *before;
  return requested_[attempt] = now;
}

bool FlightRecordCache::is_wanted(const model::Node& node) {
  const auto asked = time_of(requested_, node.id.attempt);
  if (asked && clock_.now() - *asked < kRequestLifetime && !has_since(node.id, *asked)) return true;
  if (!model::all_ranks_ended(node) || complete_.contains(node.id)) return false;
  if (!has_local_records(node.id)) return true;
  complete_.insert(node.id);
  return false;
}

void FlightRecordCache::store(const model::Node& node, const api::FlightDelivery& delivery) {
  prune();
  const Time now = clock_.now();
  delivered_[node.id] = now;
  if (model::all_ranks_ended(node)) complete_.insert(node.id);
  if (delivery.records.empty()) return;  // the earlier delivery has more
  if (!writer_.write(files_of(node.id).delivered_flight(),
                     dump_json(to_json(StoredDelivery{now, delivery}))))
    LS_LOG(warning, "flight records of {} are lost: the disk is too slow for them", text(node.id));
}

bool FlightRecordCache::has_since(const model::NodeId& node, Time asked) const {
  const auto delivered = time_of(delivered_, node);
  return delivered && *delivered >= asked;
}

Result<api::FlightView> FlightRecordCache::view(const model::Node& node, Time asked) {
  api::FlightView view{.node = node.id.index,
                       .host = node.host,
                       .asked = asked,
                       .delivered = {},
                       .left_out = 0,
                       .records = {}};
  const auto file = files_of(node.id).delivered_flight();
  const auto waiting = writer_.waiting(file);
  const host::OwnersAccess as_owner(file.parent_path());
  const auto words = waiting ? Result<std::string>(*waiting) : read_file(file, kDeliveryFileMax);
  if (!words && words.error().code == Code::not_found) return view;
  if (!words) return words.error();
  auto kept = from_json<StoredDelivery>(TRY(parse_json(*words)));
  if (!kept) return std::move(kept).error().with_context(file.string());
  view.delivered = kept->delivered;
  view.left_out = kept->delivery.left_out;
  view.records = std::move(kept->delivery.records);
  return view;
}

host::NodeFiles FlightRecordCache::files_of(const model::NodeId& node) const {
  return {host::node_folder(home_, name_of(state_, node))};
}

bool FlightRecordCache::has_local_records(const model::NodeId& node) const {
  const host::OwnersAccess as_owner(files_of(node).folder);
  const auto files = list_folder(files_of(node).flight());
  return files && !files->empty();
}

void FlightRecordCache::prune() {
  if (requested_.size() > kKnownMost) requested_.clear();
  if (delivered_.size() > kKnownMost) delivered_.clear();
  if (complete_.size() > kKnownMost) complete_.clear();
}

}  // namespace lockstep::server
