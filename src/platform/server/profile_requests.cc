#include "platform/server/profile_requests.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/os/files.h"
#include "net/base64.h"
#include "platform/host/node_files.h"

namespace lockstep::server {
namespace {

constexpr Duration kRequestIdle = std::chrono::seconds(30);
constexpr std::size_t kRequestsMax = 100;
constexpr std::size_t kRequestIdMax = 64;
constexpr std::int64_t kPartBytes = 2 << 20;

Error not_running(const model::Run& run) {
  const std::string id = text(run.id);
  if (model::is_final(run.state))
    return {Code::invalid,
            format("{} has ended: only running programs take traces; run it again", id)};
  return {Code::invalid,
          format("{} does not run yet: `lockstep why {}` says what it waits for", id, id)};
}

Result<std::vector<int>> ranks_of(const model::Run& run, const std::vector<int>& wanted) {
  const int count = model::rank_count(run.spec);
  for (const int rank : wanted)
    if (rank < 0 || rank >= count)
      return Error{Code::not_found, format("{} has no rank {}; its ranks are 0 to {}", text(run.id),
                                           rank, count - 1)};
  if (!wanted.empty()) return wanted;
  std::vector<int> all;
  for (int rank = 0; rank < count; ++rank) all.push_back(rank);
  return all;
}

}  // namespace

Result<api::ProfileView> ProfileRequests::begin(const model::Run& run,
                                                const api::ProfileRequest& wanted) {
  if (wanted.request_id.empty() || wanted.request_id.size() > kRequestIdMax)
    return Error{Code::invalid, format("request_id: must have 1 to {} characters", kRequestIdMax)};
  const auto known = requests_.find(run.id);
  if (known != requests_.end() && known->second.wanted.request_id == wanted.request_id)
    return view(run.id, wanted.request_id);
  if (model::is_external(run))
    return Error{Code::invalid,
                 format("{} was started by {}: traces are of the ranks that Lockstep starts",
                        text(run.id), run.launcher)};
  const model::Attempt* attempt = model::live_attempt(state_, run.id);
  if (attempt == nullptr) return not_running(run);
  const auto ranks = TRY(ranks_of(run, wanted.ranks));
  std::erase_if(requests_, [&](const auto& each) { return !is_alive(each.second); });
  if (requests_.size() >= kRequestsMax)
    return Error{Code::unavailable,
                 format("{} runs are being profiled: try again later", kRequestsMax)};
  const Time now = clock_.now();
  Request request{
      .wanted = wanted, .attempt = attempt->id, .began = now, .last_asked = now, .traces = {}};
  for (const int rank : ranks) {
    const int node = rank / run.spec.devices;
    const auto found = state_.nodes.find({attempt->id, node});
    request.traces[rank].view = {
        .rank = rank, .node = node, .host = found == state_.nodes.end() ? "" : found->second.host};
  }
  return view_of(requests_.insert_or_assign(run.id, std::move(request)).first->second);
}

Result<api::ProfileView> ProfileRequests::view(const model::RunId& run,
                                               const std::string& request_id) {
  TRY(find(run, request_id));
  Request& request = requests_.at(run);
  request.last_asked = clock_.now();
  return view_of(request);
}

Result<api::TracePart> ProfileRequests::part(const model::RunId& run,
                                             const api::TraceQuery& query) const {
  const Request& request = *TRY(find(run, query.request_id));
  const auto trace = request.traces.find(query.rank);
  if (trace == request.traces.end() || trace->second.view.state != api::TraceState::done)
    return Error{Code::not_found, format("there is no trace of rank {} yet", query.rank)};
  const auto path = file_of(request, trace->second.view);
  const host::OwnersAccess as_owner(path.parent_path().parent_path());
  const Fd file = TRY(open_file(path, O_RDONLY));
  std::vector<std::byte> bytes(static_cast<std::size_t>(kPartBytes));
  const ssize_t size = ::pread(file.get(), bytes.data(), bytes.size(), query.offset);
  if (size < 0) return os_error("reading a trace", errno);
  bytes.resize(static_cast<std::size_t>(size));
  return api::TracePart{net::to_base64(bytes), trace->second.total};
}

std::optional<api::ProfileOrder> ProfileRequests::order_for(const model::NodeId& node) const {
  const auto found = requests_.find(node.attempt.run);
  if (found == requests_.end()) return std::nullopt;
  const Request& request = found->second;
  if (request.attempt != node.attempt || !is_alive(request)) return std::nullopt;
  api::ProfileOrder order{.request_id = request.wanted.request_id,
                          .steps = request.wanted.steps,
                          .base_us = view_of(request).base_us};
  for (const auto& [rank, trace] : request.traces) {
    const bool ended =
        trace.view.state == api::TraceState::done || trace.view.state == api::TraceState::failed;
    if (trace.view.node == node.index && !ended) order.ranks.push_back({rank, trace.view.bytes});
  }
  if (order.ranks.empty()) return std::nullopt;
  return order;
}

bool ProfileRequests::store(const model::NodeId& node, const api::ProfileReport& report) {
  const auto found = requests_.find(node.attempt.run);
  if (found == requests_.end()) return false;
  Request& request = found->second;
  if (request.attempt != node.attempt || request.wanted.request_id != report.request_id)
    return false;
  bool is_new = false;
  for (const api::TraceReport& each : report.ranks) {
    const auto trace = request.traces.find(each.rank);
    if (trace == request.traces.end() || trace->second.view.node != node.index) continue;
    const api::TraceView before = trace->second.view;
    add_part(request, trace->second, each);
    is_new = is_new || trace->second.view != before;
  }
  if (is_new) ++request.version;
  return is_new;
}

// A trace that is complete here stays so, whatever an older call says.
void ProfileRequests::add_part(const Request& request, Trace& trace,
                               const api::TraceReport& report) const {
  api::TraceView& view = trace.view;
  if (view.state == api::TraceState::done || view.state == api::TraceState::failed) return;
  view.state = report.state;
  view.steps = report.steps;
  view.message = report.message;
  if (report.state != api::TraceState::done) return;
  trace.total = report.total;
  if (report.offset == view.bytes && !report.bytes.empty()) {
    const auto written = write_part(request, view, report);
    if (!written) {
      view.state = api::TraceState::failed;
      view.message = "the daemon could not keep it: " + written.error().message;
      return;
    }
    view.bytes += *written;
  }
  const bool is_complete = trace.total > 0 && view.bytes >= trace.total;
  view.state = is_complete ? api::TraceState::done : api::TraceState::delivering;
}

Result<std::int64_t> ProfileRequests::write_part(const Request& request,
                                                 const api::TraceView& trace,
                                                 const api::TraceReport& report) const {
  const auto bytes = net::from_base64(report.bytes);
  if (!bytes) return Error{Code::corrupt, "a part did not come as base64"};
  const auto size = static_cast<std::int64_t>(bytes->size());
  if (trace.bytes + size > api::kTraceBytesMax)
    return Error{Code::exhausted, format("it is larger than {} MiB: record fewer --steps",
                                         api::kTraceBytesMax >> 20)};
  const auto path = file_of(request, trace);
  const host::OwnersAccess as_owner(path.parent_path().parent_path());
  TRY(make_folders(path.parent_path()));
  const int how = trace.bytes == 0 ? O_TRUNC : O_APPEND;
  const Fd file = TRY(open_file(path, O_WRONLY | O_CREAT | how));
  TRY(write_all(file.get(), {reinterpret_cast<const char*>(bytes->data()), bytes->size()}));
  return size;
}

Result<const ProfileRequests::Request*> ProfileRequests::find(const model::RunId& run,
                                                              const std::string& request_id) const {
  const auto found = requests_.find(run);
  if (found != requests_.end() && found->second.wanted.request_id == request_id)
    return &found->second;
  return Error{Code::not_found,
               format("{} is no longer profiled by this request: a newer one has replaced it, or "
                      "the daemon was restarted; ask again",
                      text(run))};
}

bool ProfileRequests::is_alive(const Request& request) const {
  return clock_.now() - request.last_asked < kRequestIdle;
}

std::filesystem::path ProfileRequests::file_of(const Request& request,
                                               const api::TraceView& trace) const {
  const auto name = name_of(state_, model::NodeId{request.attempt, trace.node});
  return host::NodeFiles{host::node_folder(home_, name)}.delivered_trace(trace.rank);
}

api::ProfileView ProfileRequests::view_of(const Request& request) const {
  const model::Attempt* live = model::live_attempt(state_, request.attempt.run);
  const auto since_epoch =
      std::chrono::duration_cast<std::chrono::microseconds>(request.began.time_since_epoch());
  api::ProfileView view{.run = text(request.attempt.run),
                        .request_id = request.wanted.request_id,
                        .steps = request.wanted.steps,
                        .base_us = since_epoch.count(),
                        .ended = live == nullptr || live->id != request.attempt,
                        .version = request.version};
  for (const auto& [rank, trace] : request.traces) view.ranks.push_back(trace.view);
  return view;
}

}  // namespace lockstep::server
