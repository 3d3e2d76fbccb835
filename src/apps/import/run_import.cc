#include "apps/import/run_import.h"

#include <algorithm>
#include <span>
#include <utility>

#include "apps/cli/terminal.h"
#include "base/format.h"
#include "net/base64.h"
#include "net/crypto.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kKeyBytes = 40;  // of a digest in hex

template <class T>
void append_column(std::string& bytes, const std::vector<T>& column, std::size_t first,
                   std::size_t count) {
  bytes.append(reinterpret_cast<const char*>(column.data() + first), count * sizeof(T));
}

}  // namespace

Result<model::RunId> import_run(client::Client& client, const ImportTarget& target) {
  net::Sha256 digest;
  digest.add(target.source + "\n" + target.key);
  api::ImportRequest request{
      .key = digest.hex().substr(0, kKeyBytes), .source = target.source, .name = target.name};
  if (!target.project.empty()) request.project = target.project;
  return model::parse_run_id(TRY(client.call(api::kImport, {.request = request})).run);
}

Result<std::int64_t> PointSender::stored() {
  return TRY(client_.call(api::kImportPoints, {.path = run_, .request = {.source = source_}}))
      .sequence;
}

void PointSender::add(std::string_view metric, int rank, std::int64_t step, Time time,
                      double value) {
  key_.assign(metric);
  if (rank != 0) key_ += format("\n{}", rank);
  const auto [known, is_new] =
      indices_.try_emplace(key_, static_cast<std::uint32_t>(series_.size()));
  if (is_new) series_.push_back({std::string(metric), rank});
  of_series_.push_back(known->second);
  steps_.push_back(step);
  times_.push_back(time.time_since_epoch().count());
  values_.push_back(value);
  ++counts_.read;
}

Result<void> PointSender::send(std::int64_t sequence) {
  const std::size_t parts = (steps_.size() + api::kBatchPointsMax - 1) / api::kBatchPointsMax;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t first = part * api::kBatchPointsMax;
    TRY(send_part(first, std::min(steps_.size() - first, api::kBatchPointsMax),
                  sequence - static_cast<std::int64_t>(parts - 1 - part)));
  }
  of_series_.clear();
  steps_.clear();
  times_.clear();
  values_.clear();
  return {};
}

Result<void> PointSender::send_part(std::size_t first, std::size_t count, std::int64_t sequence) {
  std::string bytes;
  bytes.reserve(count * 28);
  // A batch names only its own series: a file may have many.
  api::ImportedPoints request{.source = source_, .sequence = sequence};
  std::map<std::uint32_t, std::uint32_t> own;
  std::vector<std::uint32_t> column(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t series = of_series_[first + i];
    const auto [known, is_new] =
        own.try_emplace(series, static_cast<std::uint32_t>(request.series.size()));
    if (is_new) request.series.push_back(series_[series]);
    column[i] = known->second;
  }
  append_column(bytes, column, 0, count);
  append_column(bytes, steps_, first, count);
  append_column(bytes, times_, first, count);
  append_column(bytes, values_, first, count);
  request.points = net::to_base64(std::as_bytes(std::span(bytes)));
  const api::ImportedPointsAnswer answer =
      TRY(client_.call(api::kImportPoints, {.path = run_, .request = std::move(request)}));
  counts_.stored += answer.stored;
  counts_.rejected += answer.rejected;
  if (counts_.reason.empty()) counts_.reason = answer.reason.value_or("");
  return {};
}

Result<void> send_media(client::Client& client, const model::RunId& run,
                        const api::MediaRequest& request, ImportCounts& counts) {
  const auto sent = client.call(api::kAddMedia, {.path = run, .request = request});
  if (sent) {
    ++counts.media;
    return {};
  }
  if (sent.error().code != Code::invalid) return sent.error();
  ++counts.rejected;
  if (counts.reason.empty()) counts.reason = sent.error().message;
  return {};
}

void print_counts(const model::RunId& run, const ImportCounts& counts) {
  std::string line =
      format("{}: {} points read, {} of them new", text(run), counts.read, counts.stored);
  if (counts.media > 0) line += format("; {} images and histograms", counts.media);
  print(line);
  if (counts.rejected > 0)
    print_to_stderr(format("lockstep: {} values of {} were not stored; the first: {}",
                           counts.rejected, text(run), counts.reason));
}

}  // namespace lockstep::cli
