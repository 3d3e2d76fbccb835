#include "apps/import/write_event_file.h"

#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>

#include "base/format.h"
#include "base/os/files.h"
#include "net/base64.h"
#include "platform/event_file/event_file.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPointsMax = 100'000;  // of an answer
constexpr std::int64_t kMediaAtOnce = 1000;
constexpr std::size_t kBufferBytes = 1 << 20;
// A name that TensorBoard knows as one of its files.
constexpr std::string_view kName = "events.out.tfevents.1.lockstep";

class EventWriter {
 public:
  static Result<EventWriter> create(const fs::path& folder) {
    std::error_code failed;
    fs::create_directories(folder, failed);
    if (failed) return Error{Code::invalid, format("{}: {}", folder.string(), failed.message())};
    // Not one of TensorBoard's names until it is complete.
    const fs::path part = folder / ".lockstep-events";
    return EventWriter(TRY(open_file(part, O_WRONLY | O_CREAT | O_TRUNC, 0644)), part,
                       folder / kName);
  }

  Result<void> add(std::string_view record) {
    buffer_ += record;
    return buffer_.size() < kBufferBytes ? Result<void>() : flush();
  }

  Result<void> finish() {
    TRY(flush());
    std::error_code failed;
    fs::rename(part_, goal_, failed);
    if (failed) return Error{Code::unavailable, format("{}: {}", goal_.string(), failed.message())};
    return {};
  }

 private:
  EventWriter(Fd file, fs::path part, fs::path goal)
      : file_(std::move(file)), part_(std::move(part)), goal_(std::move(goal)) {}

  Result<void> flush() {
    TRY(write_all(file_.get(), buffer_));
    buffer_.clear();
    return {};
  }

  Fd file_;
  fs::path part_, goal_;
  std::string buffer_;
};

bool is_wanted(const api::Series& series) {
  return !series.statistic || *series.statistic == api::SeriesStatistic::mean;
}

Result<void> write_series(const api::Series& series, EventWriter& writer, WrittenEvents& written) {
  for (const api::Point& point : series.points) {
    TRY(writer.add(event_file::scalar_record({point.step, point.time, series.name, point.value})));
    ++written.scalars;
  }
  if (series.downsampled) ++written.cut;
  return {};
}

// Each metric by a call of its own, because an answer has a bound over all of its series.
Result<void> write_scalars(client::Client& client, const model::RunId& run,
                           const api::MetricsQuery& wanted, EventWriter& writer,
                           WrittenEvents& written) {
  api::MetricsQuery query = wanted;
  query.pixels = 1;
  std::vector<std::string> names;
  for (const api::Series& series :
       TRY(client.call(api::kMetrics, {.path = run, .query = query})).series)
    if (names.empty() || names.back() != series.name) names.push_back(series.name);
  query.pixels.reset();
  query.points = kPointsMax;
  for (const std::string& name : names) {
    query.name = name;
    const api::SeriesList list = TRY(client.call(api::kMetrics, {.path = run, .query = query}));
    for (const api::Series& series : list.series)
      if (is_wanted(series)) TRY(write_series(series, writer, written));
  }
  return {};
}

Result<void> write_images(client::Client& client, const model::RunId& run, api::MediaQuery query,
                          EventWriter& writer, WrittenEvents& written) {
  for (bool more = true; more; query.skip += kMediaAtOnce) {
    const api::ImageList list = TRY(client.call(api::kImages, {.path = run, .query = query}));
    more = list.more;
    for (const api::ImageView& image : list.images) {
      const auto file = client.call(
          api::kImage, {.path = run, .query = {image.name, image.step, image.rank, image.index}});
      if (!file && file.error().code == Code::not_found) continue;  // it was removed
      const auto bytes = net::from_base64(TRY(file).data);
      if (!bytes) return Error{Code::corrupt, "an image in an answer is no base64"};
      event_file::EventImage event{
          .step = image.step, .time = image.time, .tag = image.name, .index = image.index};
      if (event.index > 0) event.tag += format("/{}", event.index);
      event.bytes.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
      TRY(writer.add(event_file::image_record(event)));
      ++written.images;
    }
  }
  return {};
}

Result<void> write_histograms(client::Client& client, const model::RunId& run,
                              api::MediaQuery query, EventWriter& writer, WrittenEvents& written) {
  for (bool more = true; more; query.skip += kMediaAtOnce) {
    const api::HistogramList list =
        TRY(client.call(api::kHistograms, {.path = run, .query = query}));
    more = list.more;
    for (const api::HistogramView& one : list.histograms) {
      TRY(writer.add(
          event_file::histogram_record({one.step, one.time, one.name, one.edges, one.counts})));
      ++written.histograms;
    }
  }
  return {};
}

}  // namespace

Result<WrittenEvents> write_event_file(client::Client& client, const model::RunId& run,
                                       std::optional<int> rank, const fs::path& folder) {
  const api::RunView view = TRY(client.call(api::kRun, {.path = run}));
  EventWriter writer = TRY(EventWriter::create(folder));
  WrittenEvents written;
  TRY(writer.add(event_file::first_record(view.submitted)));
  api::MetricsQuery metrics;
  metrics.rank = rank;
  TRY(write_scalars(client, run, metrics, writer, written));
  const api::MediaQuery media{.name = {}, .rank = rank.value_or(0), .after_step = {}};
  TRY(write_images(client, run, media, writer, written));
  TRY(write_histograms(client, run, media, writer, written));
  TRY(writer.finish());
  return written;
}

}  // namespace lockstep::cli
