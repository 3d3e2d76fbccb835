#include "platform/server/calls/import_calls.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/format.h"
#include "net/base64.h"
#include "platform/insight/series/series_store.h"
#include "platform/store/job_runs.h"

namespace lockstep::server {
namespace {

constexpr std::string_view kAgent = "import";
constexpr std::string_view kJobBegin = "import.";
constexpr std::size_t kKeyMax = 50, kSourceNameMax = 50, kSourceMax = 400, kNameMax = 64;
// Nodes that no agent has, so that items have sequences of their own.
constexpr int kFirstPart = 999'800'000;
constexpr std::size_t kPointBytes = 4 + 8 + 8 + 8;

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t at) {
  T number{};
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

// Apart from the sources of agents, which are the names of nodes, and those of clients.
std::string source_of(const api::ImportedPoints& request) { return "from:" + request.source; }

// The columns of all points: series, steps, times, values.
Result<std::vector<insight::PointBatch::Point>> points_of(const api::ImportedPoints& request) {
  const auto bytes = net::from_base64(request.points);
  if (!bytes || bytes->size() % kPointBytes != 0)
    return Error{Code::invalid,
                 format("points: are no base64 of columns with {} bytes a point", kPointBytes)};
  const std::size_t count = bytes->size() / kPointBytes;
  if (count > api::kBatchPointsMax)
    return Error{Code::invalid, format("points: at most {} are allowed", api::kBatchPointsMax)};
  std::vector<insight::PointBatch::Point> points(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto& [series, point] = points[i];
    series = number_at<std::uint32_t>(*bytes, 4 * i);
    if (series >= request.series.size())
      return Error{Code::invalid, format("points[{}]: there is no series {}", i, series)};
    point.step = number_at<std::int64_t>(*bytes, 4 * count + 8 * i);
    point.time = Time(Duration(number_at<std::int64_t>(*bytes, 12 * count + 8 * i)));
    point.value = number_at<double>(*bytes, 20 * count + 8 * i);
  }
  return points;
}

// As submitted runs have them.
std::string plain_name(std::string name) {
  name = name.substr(0, kNameMax);
  for (char& letter : name) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9') || letter == '_' || letter == '.';
    if (!is_plain) letter = '-';
  }
  return name;
}

artifacts::MediaFilter filter_of(const api::MediaQuery& query) {
  return {.name = query.name,
          .rank = query.rank,
          .after_step = query.after_step,
          .most = query.limit + 1,
          .skip = query.skip};
}

template <class T>
bool limit_list(std::vector<T>& list, std::int64_t limit) {
  if (std::ssize(list) <= limit) return false;
  list.resize(static_cast<std::size_t>(limit));
  return true;
}

}  // namespace

Result<api::ImportedRun> ImportCalls::import(const RouteCall<api::kImport>& call) {
  return run_for(call.request, call.caller);
}

// The run has ended: what is imported has happened before, and may still be added to.
Result<api::ImportedRun> ImportCalls::run_for(const api::ImportRequest& request,
                                              const Principal& caller) {
  const identity::Bearer& bearer = caller.bearer;
  const identity::Directory& directory = context_.accounts().directory();
  if (request.key.size() > kKeyMax)
    return Error{Code::invalid, format("key: at most {} bytes are allowed", kKeyMax)};
  if (request.source.empty() || request.source.size() > kSourceNameMax)
    return Error{Code::invalid, format("source: has 1 to {} bytes", kSourceNameMax)};
  const std::string project = TRY(identity::project_of_submission(
      directory, bearer, request.project.value_or(identity::default_project(directory, bearer))));
  model::AttachNode agent;
  agent.job = std::string(kJobBegin) + request.key;
  if (const auto known =
          TRY(store::newest_run_of_job(context_.setup().database, project, agent.job, bearer.user)))
    return api::ImportedRun{.run = text(known->run), .known = true};
  agent.launcher = "an import of " + request.source;
  agent.spec.project = project;
  agent.spec.name = plain_name(request.name.value_or(request.source));
  agent.spec.command = {"lockstep", "import"};
  agent.origin.user = bearer.user;
  agent.agent = {.id = std::string(kAgent),
                 .machine = caller.address.empty() ? "localhost" : caller.address,
                 .started = context_.now()};
  agent.ranks = {{.rank = 0, .local_rank = 0}};
  model::AuditRecord made = record_of(caller, api::kImport, context_.now());
  made.target = agent.job;
  made.project = project;
  made.after = "made";
  const model::NodeId node = TRY(context_.controller().attach(agent, made));
  model::NodeReport report;
  report.node = node;
  report.generation = name_of(context_.state().attempts.at(node.attempt)).generation;
  report.state = model::NodeState::running;
  report.agent.id = std::string(kAgent);
  report.ranks = {{.rank = 0, .local_rank = 0, .state = model::RankState::exited}};
  report.ranks.front().ended = context_.now();
  TRY(context_.controller().report(report));
  return api::ImportedRun{.run = text(node.attempt.run)};
}

Result<api::ImportedPointsAnswer> ImportCalls::add_points(
    const RouteCall<api::kImportPoints>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  const model::Run& run = *TRY(context_.find_run(id));
  const api::ImportedPoints& request = call.request;
  if (request.source.empty() || request.source.size() > kSourceMax)
    return Error{Code::invalid, format("source: has 1 to {} bytes", kSourceMax)};
  if (request.series.size() > api::kBatchSeriesMax)
    return Error{Code::invalid, format("series: at most {} are allowed", api::kBatchSeriesMax)};
  insight::PointBatch batch{.attempt = {id, std::max<std::int64_t>(run.epoch, 1)},
                            .source = source_of(request),
                            .sequence = request.sequence,
                            .series = {},
                            .points = TRY(points_of(request))};
  if (!batch.points.empty() && request.sequence == 0)
    return Error{Code::invalid, "sequence: points need one, from 1"};
  for (const api::BatchSeries& series : request.series)
    batch.series.push_back(
        {.metric = series.name, .part = insight::RunPart::rank, .index = series.rank});
  api::ImportedPointsAnswer answer;
  if (!batch.points.empty()) {
    const insight::Appended appended = TRY(context_.insight().append(run.generation, batch));
    answer.stored = static_cast<std::int64_t>(appended.stored);
    answer.rejected = static_cast<std::int64_t>(appended.rejected);
    if (!appended.reasons.empty())
      answer.reason =
          format("points[{}]: {}", appended.reasons.front().index, appended.reasons.front().reason);
  }
  answer.sequence = TRY(context_.insight().appended(id, source_of(request)));
  return answer;
}

Result<api::ItemsStored> ImportCalls::add_items(const RouteCall<api::kAddItems>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  const model::Run& run = *TRY(context_.find_run(id));
  const model::NodeName node{
      run.generation, {{id, std::max<std::int64_t>(run.epoch, 1)}, kFirstPart + call.request.part}};
  for (const spool::TelemetryItem& item : call.request.items)
    if (item.kind == spool::TelemetryKind::telemetry)
      return Error{Code::invalid, "items: telemetry comes from agents only"};
  return api::ItemsStored{.sequence = TRY(context_.insight().ingest(node, call.request.items))};
}

Result<api::MediaStored> ImportCalls::store_media(const model::RunId& run,
                                                  const api::MediaRequest& request) {
  const artifacts::MediaKey key{request.name, request.step, request.rank, request.index};
  const Time time = request.time.value_or(context_.now());
  if (request.kind == api::MediaKind::histogram) {
    if (request.counts.size() > api::kHistogramBinsMax)
      return Error{Code::invalid, format("counts: at most {} are allowed", api::kHistogramBinsMax)};
    TRY(media_.add_histogram(run, {key, time, request.edges, request.counts}));
    return api::MediaStored{};
  }
  const auto bytes = net::from_base64(request.data.value_or(""));
  if (!bytes || bytes->empty() || std::ssize(*bytes) > api::kImageBytesMax)
    return Error{Code::invalid, "data: is no base64 of a file with at most 2 MiB"};
  const std::string_view file(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return api::MediaStored{
      TRY(media_.add_image(run, {key, time, request.caption.value_or("")}, file))};
}

Result<api::MediaStored> ImportCalls::add_media(const RouteCall<api::kAddMedia>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(id));
  return store_media(id, call.request);
}

Result<api::MediaStored> ImportCalls::add_node_media(const RouteCall<api::kNodeMedia>& call) {
  const model::NodeId node = TRY(node_of(call.path_parameters));
  TRY(context_.find_run(node.attempt.run));
  if (!model::has_node(context_.state(), {call.query.generation.value_or(""), node}))
    return Error{Code::not_found, format("there is no node {}", text(node))};
  return store_media(node.attempt.run, call.request);
}

Result<api::ImageList> ImportCalls::images(const RouteCall<api::kImages>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(id));
  auto found = TRY(media_.images(id, filter_of(call.query)));
  api::ImageList list{.more = limit_list(found, call.query.limit)};
  for (artifacts::LoggedImage& image : found)
    list.images.push_back({.name = std::move(image.key.name),
                           .step = image.key.step,
                           .time = image.time,
                           .rank = image.key.rank,
                           .index = image.key.part,
                           .caption = std::move(image.caption),
                           .path = std::move(image.path),
                           .sha256 = std::move(image.sha256),
                           .size = image.size});
  return list;
}

Result<api::ImageFile> ImportCalls::image(const RouteCall<api::kImage>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(id));
  const auto& [name, step, rank, index] = call.query;
  const std::string file = TRY(media_.image_file(id, {name, step, rank, index}));
  return api::ImageFile{net::to_base64(std::as_bytes(std::span(file)))};
}

Result<api::HistogramList> ImportCalls::histograms(const RouteCall<api::kHistograms>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(id));
  auto found = TRY(media_.histograms(id, filter_of(call.query)));
  api::HistogramList list{.more = limit_list(found, call.query.limit)};
  for (artifacts::LoggedHistogram& histogram : found)
    list.histograms.push_back({.name = std::move(histogram.key.name),
                               .step = histogram.key.step,
                               .time = histogram.time,
                               .rank = histogram.key.rank,
                               .edges = std::move(histogram.edges),
                               .counts = std::move(histogram.counts)});
  return list;
}

}  // namespace lockstep::server
