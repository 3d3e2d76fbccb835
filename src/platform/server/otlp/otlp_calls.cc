#include "platform/server/otlp/otlp_calls.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/format.h"
#include "base/hash.h"
#include "net/http/gunzip.h"
#include "platform/api/error.h"
#include "platform/wire/wire.h"

namespace lockstep::server {
namespace {

constexpr std::string_view kProtobuf = "application/x-protobuf", kJsonType = "application/json";
constexpr std::string_view kRunAttribute = "lockstep.run", kRankAttribute = "lockstep.rank",
                           kProjectAttribute = "lockstep.project";
// A node that no agent has, so that items have sequences of their own.
constexpr int kOtlpNode = 999'999'998;
constexpr Bytes kContentMax = 16_MiB;
constexpr std::int64_t kValuesMax = 100'000;  // of a call
constexpr std::size_t kBodiesKept = 256;      // for repeated calls
constexpr int kOtlpRankMax = 1'000'000;

std::string_view type_of(const net::HttpRequest& request) {
  const auto type = request.headers.find("Content-Type").value_or("");
  return net::equal_ignoring_case(type.substr(0, type.find(';')), kJsonType) ? kJsonType
                                                                             : kProtobuf;
}

std::string attribute_of(const otlp::Attributes& attributes, std::string_view name) {
  const auto found = attributes.find(std::string(name));
  return found == attributes.end() ? "" : found->second;
}

Result<int> rank_of(const otlp::Attributes& attributes) {
  const std::string words = attribute_of(attributes, kRankAttribute);
  if (words.empty()) return 0;
  int rank = -1;
  const auto [end, failed] = std::from_chars(words.data(), words.data() + words.size(), rank);
  if (failed == std::errc() && end == words.data() + words.size() && rank >= 0 &&
      rank <= kOtlpRankMax)
    return rank;
  return Error{Code::invalid, format("{}: '{}' is no rank", kRankAttribute, words)};
}

// Values of one step and time in one item, as long as no metric is in it twice.
std::vector<spool::TelemetryItem> items_of(const otlp::ResourceMetrics& resource, int rank,
                                           std::int64_t sequence) {
  std::vector<spool::TelemetryItem> items;
  for (const otlp::MetricValue& value : resource.values) {
    const std::int64_t step = otlp::step_of(value.point);
    const std::string name = otlp::series_name(value.point);
    if (items.empty() || items.back().step != step || items.back().time != value.point.time ||
        items.back().values.contains(name))
      items.push_back({.sequence = ++sequence,
                       .kind = spool::TelemetryKind::metrics,
                       .rank = rank,
                       .step = step,
                       .time = value.point.time});
    items.back().values[name] = value.value;
  }
  return items;
}

std::int64_t points_in(const otlp::ResourceMetrics& resource) {
  return std::ssize(resource.values) + std::ssize(resource.histograms);
}

// google.rpc.Status: code 1, message 2.
std::string status_message(const std::string& message) {
  wire::WireWriter status;
  status.add_bytes(2, message);
  return status.message();
}

net::HttpResponse otlp_answer(const net::HttpRequest& request, int status, std::string protobuf,
                              const Json& json) {
  const bool is_json = type_of(request) == kJsonType;
  return {.status = status,
          .content_type = std::string(is_json ? kJsonType : kProtobuf),
          .body = is_json ? dump_json(json) : std::move(protobuf),
          .headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}}};
}

// Exporters repeat 429, 502, 503 and 504 only.
int status_for(const Error& error) {
  if (error.code == Code::denied) return 403;
  if (error.code == Code::not_found) return 404;
  if (error.code == Code::invalid) return 400;
  return 503;
}

}  // namespace

bool OtlpCalls::is_for(const net::HttpRequest& request) {
  return request.path == std::vector<std::string>{"v1", "metrics"};
}

net::HttpResponse OtlpCalls::refusal(const net::HttpRequest& request, int status,
                                     const std::string& message) {
  return otlp_answer(request, status, status_message(message), Json{{"message", message}});
}

std::optional<net::HttpResponse> OtlpCalls::check_head(const net::HttpRequest& request) {
  if (request.method != "POST") return refusal(request, 405, "metrics are sent by POST");
  const auto encoding = request.headers.find("Content-Encoding").value_or("identity");
  if (encoding != "gzip" && encoding != "identity")
    return refusal(request, 415, "the Content-Encoding is gzip, or none");
  const auto type = request.headers.find("Content-Type").value_or("");
  const auto plain = type.substr(0, type.find(';'));
  if (net::equal_ignoring_case(plain, kJsonType) || net::equal_ignoring_case(plain, kProtobuf))
    return std::nullopt;
  return refusal(request, 415, "the body is application/x-protobuf or application/json");
}

net::HttpResponse OtlpCalls::handle(const net::HttpRequest& request, const Principal& caller) {
  const auto stored = store(request, caller);
  if (!stored) return refusal(request, status_for(stored.error()), stored.error().message);
  return otlp_answer(request, 200, otlp::protobuf_answer(stored->rejected, stored->why),
                     otlp::json_answer(stored->rejected, stored->why));
}

// A resource that cannot be stored does not keep the others from being stored. If none can, the
// call is refused.
Result<OtlpCalls::Stored> OtlpCalls::store(const net::HttpRequest& request,
                                           const Principal& caller) {
  std::string unpacked;
  const bool is_packed = request.headers.find("Content-Encoding").value_or("") == "gzip";
  if (is_packed) unpacked = TRY(net::gunzip(request.body, kContentMax));
  const std::string& body = is_packed ? unpacked : request.body;
  const auto resources = type_of(request) == kJsonType ? TRY(otlp::read_json(TRY(parse_json(body))))
                                                       : TRY(otlp::read_protobuf(body));
  std::int64_t values = 0;
  for (const otlp::ResourceMetrics& resource : resources) values += points_in(resource);
  if (values > kValuesMax)
    return Error{Code::invalid, format("a call has at most {} values", kValuesMax)};
  if (is_repeated(caller.name + "\n" + body)) return Stored{};
  Stored stored;
  for (const otlp::ResourceMetrics& resource : resources) {
    const auto done = store(resource, caller, stored);
    if (done) continue;
    if (resources.size() == 1 || status_for(done.error()) == 503) {
      recent_.pop_back();
      return done.error();
    }
    stored.rejected += points_in(resource);
    if (stored.why.empty()) stored.why = done.error().message;
  }
  return stored;
}

Result<void> OtlpCalls::store(const otlp::ResourceMetrics& resource, const Principal& caller,
                              Stored& stored) {
  if (resource.values.empty()) return {};
  const int rank = TRY(rank_of(resource.attributes));
  const model::RunId id = TRY(run_of_resource(resource.attributes, caller));
  const model::Run& run = *TRY(context_.find_run(id));
  const model::NodeName node{run.generation,
                             {{id, std::max<std::int64_t>(run.epoch, 1)}, kOtlpNode}};
  const std::int64_t last = TRY(context_.insight().ingest(node, {}));
  auto items = items_of(resource, rank, last);
  for (spool::TelemetryItem& item : items)
    std::erase_if(item.values, [&](const auto& one) {
      if (!one.first.empty() && one.first.size() <= 256) return false;
      ++stored.rejected;
      if (stored.why.empty())
        stored.why =
            format("a name with its attributes has 1 to 256 bytes: '{}'", one.first.substr(0, 100));
      return true;
    });
  if (TRY(context_.insight().ingest(node, items)) < items.back().sequence)
    return Error{Code::unavailable, "the points cannot be stored now; try again later"};
  return store_histograms(resource, id, rank, stored);
}

Result<void> OtlpCalls::store_histograms(const otlp::ResourceMetrics& resource,
                                         const model::RunId& run, int rank, Stored& stored) {
  for (const otlp::MetricHistogram& histogram : resource.histograms) {
    const auto done = imports_.store_media(run, {.kind = api::MediaKind::histogram,
                                                 .name = otlp::series_name(histogram.point),
                                                 .step = otlp::step_of(histogram.point),
                                                 .time = histogram.point.time,
                                                 .rank = rank,
                                                 .edges = histogram.bins.edges,
                                                 .counts = histogram.bins.counts});
    if (done) continue;
    if (done.error().code != Code::invalid) return done.error();
    ++stored.rejected;
    if (stored.why.empty()) stored.why = done.error().message;
  }
  return {};
}

Result<model::RunId> OtlpCalls::run_of_resource(const otlp::Attributes& attributes,
                                                const Principal& caller) {
  const identity::Directory& directory = context_.accounts().directory();
  const std::string named = attribute_of(attributes, kRunAttribute);
  if (!named.empty()) {
    model::RunId id = TRY(model::parse_run_id(named));
    id.project = identity::readable_project(directory, caller.bearer, id.project);
    if (!identity::can_read(directory, caller.bearer, id.project)) return no_such_run(id);
    const model::Run& run = *TRY(context_.find_run(id));
    const identity::Target target{.project = id.project, .owner = run.origin.user};
    if (identity::may(directory, caller.bearer, identity::Action::control_run, target)) return id;
    return Error{Code::denied,
                 identity::refusal(caller.bearer, identity::Action::control_run, target)};
  }
  const std::string service = attribute_of(attributes, "service.name");
  const std::string instance = attribute_of(attributes, "service.instance.id");
  const std::string project = attribute_of(attributes, kProjectAttribute);
  api::ImportRequest request{.key = format("otlp-{:016x}", fnv1a(service + "\n" + instance)),
                             .source = "OpenTelemetry",
                             .name = service.empty() ? "otlp" : service};
  if (!project.empty()) request.project = project;
  return model::parse_run_id(TRY(imports_.run_for(request, caller)).run);
}

// Exporters send a call again whose answer they did not get.
bool OtlpCalls::is_repeated(const std::string& body) {
  const std::uint64_t hash = fnv1a(body);
  if (std::ranges::find(recent_, hash) != recent_.end()) return true;
  recent_.push_back(hash);
  if (recent_.size() > kBodiesKept) recent_.pop_front();
  return false;
}

}  // namespace lockstep::server
