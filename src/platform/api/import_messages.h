// Messages that bring points, images and histograms into a run without its agent, and those that
// read images and histograms (docs/design/imports.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/spool/telemetry_item.h"
#include "text/record.h"

namespace lockstep::api {

inline constexpr std::size_t kBatchPointsMax = 65'536;
inline constexpr std::size_t kBatchSeriesMax = 10'000;
inline constexpr std::int64_t kImageBytesMax = 2 << 20;
inline constexpr std::size_t kHistogramBinsMax = 10'000;

struct ImportRequest {
  std::string key;
  std::string source;
  std::optional<std::string> project{};
  std::optional<std::string> name{};

  static constexpr auto fields() {
    return record<ImportRequest>(
        required(field("key", &ImportRequest::key,
                       "names what is imported: the same key of the same user is the same run; at "
                       "most 64 letters, digits, '-', '_' and '.'")),
        required(field("source", &ImportRequest::source, "what it is, such as tensorboard")),
        field("project", &ImportRequest::project, "the project; absent: the caller's"),
        field("name", &ImportRequest::name, "of the run"));
  }
};

struct ImportedRun {
  std::string run;
  bool known = false;

  static constexpr auto fields() {
    return record<ImportedRun>(
        required(field("run", &ImportedRun::run, "the run")),
        field("known", &ImportedRun::known, "an earlier import of this key has made it"));
  }
};

struct BatchSeries {
  std::string name;
  int rank = 0;

  static constexpr auto fields() {
    return record<BatchSeries>(
        required(field("name", &BatchSeries::name, "of the metric")),
        between(0, 1'000'000, field("rank", &BatchSeries::rank, "that logged it")));
  }
};

struct ImportedPoints {
  std::string source;
  std::int64_t sequence = 0;
  std::vector<BatchSeries> series{};
  std::string points{};

  static constexpr auto fields() {
    return record<ImportedPoints>(
        required(field("source", &ImportedPoints::source,
                       "where the points come from, such as a file; 1 to 400 bytes")),
        required(between(0, std::numeric_limits<std::int64_t>::max(),
                         field("sequence", &ImportedPoints::sequence,
                               "ascends within a source: a batch at or below the stored one is not "
                               "stored again"))),
        field("series", &ImportedPoints::series, "the series of the batch"),
        field("points", &ImportedPoints::points,
              "at most 65,536, in base64: the index of each in `series` (4 bytes), then all steps "
              "(8), times in microseconds since 1970 (8) and values (double), little endian"));
  }
};

struct ImportedPointsAnswer {
  std::int64_t sequence = 0;
  std::int64_t stored = 0;
  std::int64_t rejected = 0;
  std::optional<std::string> reason{};

  static constexpr auto fields() {
    return record<ImportedPointsAnswer>(
        required(field("sequence", &ImportedPointsAnswer::sequence,
                       "the source is stored up to this one")),
        field("stored", &ImportedPointsAnswer::stored, "points that this call has added"),
        field("rejected", &ImportedPointsAnswer::rejected, "points that cannot be stored"),
        field("reason", &ImportedPointsAnswer::reason,
              "of the first rejected point, with its index"));
  }
};

struct ItemsRequest {
  int part = 0;
  std::vector<spool::TelemetryItem> items{};

  static constexpr auto fields() {
    return record<ItemsRequest>(
        required(between(0, 99'999,
                         field("part", &ItemsRequest::part,
                               "of several sources of one run, each with sequences of its own"))),
        field("items", &ItemsRequest::items,
              "reports of ranks by ascending sequence; those that are stored are skipped"));
  }
};

struct ItemsStored {
  std::int64_t sequence = 0;

  static constexpr auto fields() {
    return record<ItemsStored>(
        required(field("sequence", &ItemsStored::sequence, "the part is stored up to this one")));
  }
};

enum class MediaKind { image, histogram };
constexpr auto enum_names(MediaKind) {
  return names<MediaKind>({{MediaKind::image, "image"}, {MediaKind::histogram, "histogram"}});
}

// An image or a histogram that a rank has logged.
struct MediaRequest {
  MediaKind kind = MediaKind::image;
  std::string name;
  std::int64_t step = 0;
  std::optional<Time> time{};
  int rank = 0;
  int index = 0;
  std::optional<std::string> caption{};
  std::optional<std::string> data{};
  std::vector<double> edges{};
  std::vector<double> counts{};

  static constexpr auto fields() {
    return record<MediaRequest>(
        required(field("kind", &MediaRequest::kind, "an image or a histogram")),
        required(field("name", &MediaRequest::name, "as of a metric")),
        field("step", &MediaRequest::step, "training step"),
        field("time", &MediaRequest::time, "when the rank logged it"),
        between(0, 1'000'000, field("rank", &MediaRequest::rank, "the rank that logged it")),
        between(0, 999, field("index", &MediaRequest::index, "of several of one name and step")),
        field("caption", &MediaRequest::caption, "of an image"),
        field("data", &MediaRequest::data,
              "of an image: a PNG, JPEG, GIF or WebP file of at most "
              "2 MiB, in base64"),
        field("edges", &MediaRequest::edges, "of a histogram: the borders of its bins, ascending"),
        field("counts", &MediaRequest::counts, "of a histogram: one less than edges"));
  }
};

struct MediaStored {
  std::string sha256{};

  static constexpr auto fields() {
    return record<MediaStored>(
        field("sha256", &MediaStored::sha256, "of an image; equal ones are stored once"));
  }
};

struct MediaQuery {
  std::optional<std::string> name{};
  std::optional<int> rank{};
  std::optional<std::int64_t> after_step{};
  std::int64_t limit = 1000;
  std::int64_t skip = 0;

  static constexpr auto fields() {
    return record<MediaQuery>(
        field("name", &MediaQuery::name, "only of this name"),
        field("rank", &MediaQuery::rank, "only of this rank"),
        field("after_step", &MediaQuery::after_step, "only of later steps"),
        between(1, 1000, field("limit", &MediaQuery::limit, "the greatest number")),
        between(0, 1'000'000,
                field("skip", &MediaQuery::skip, "so many of the first are left out")));
  }
};

struct ImageView {
  std::string name;
  std::int64_t step = 0;
  Time time{};
  int rank = 0;
  int index = 0;
  std::string caption{};
  std::string path;
  std::string sha256;
  std::int64_t size = 0;

  static constexpr auto fields() {
    return record<ImageView>(field("name", &ImageView::name, "as of a metric"),
                             field("step", &ImageView::step, "training step"),
                             field("time", &ImageView::time, "when the rank logged it"),
                             field("rank", &ImageView::rank, "the rank that logged it"),
                             field("index", &ImageView::index, "of several of one name and step"),
                             field("caption", &ImageView::caption, "may be empty"),
                             field("path", &ImageView::path, "of the artifact that it is"),
                             field("sha256", &ImageView::sha256, "of the file"),
                             field("size", &ImageView::size, "bytes of the file"));
  }
};

struct ImageList {
  std::vector<ImageView> images{};
  bool more = false;

  static constexpr auto fields() {
    return record<ImageList>(field("images", &ImageList::images, "by name, step, rank and index"),
                             field("more", &ImageList::more, "there are more than the limit"));
  }
};

struct ImageQuery {
  std::string name;
  std::int64_t step = 0;
  int rank = 0;
  int index = 0;

  static constexpr auto fields() {
    return record<ImageQuery>(required(field("name", &ImageQuery::name, "of the image")),
                              required(field("step", &ImageQuery::step, "training step")),
                              field("rank", &ImageQuery::rank, "the rank that logged it"),
                              field("index", &ImageQuery::index, "of several"));
  }
};

struct ImageFile {
  std::string data;

  static constexpr auto fields() {
    return record<ImageFile>(required(field("data", &ImageFile::data, "the file, in base64")));
  }
};

struct HistogramView {
  std::string name;
  std::int64_t step = 0;
  Time time{};
  int rank = 0;
  std::vector<double> edges{};
  std::vector<double> counts{};

  static constexpr auto fields() {
    return record<HistogramView>(
        field("name", &HistogramView::name, "as of a metric"),
        field("step", &HistogramView::step, "training step"),
        field("time", &HistogramView::time, "when the rank logged it"),
        field("rank", &HistogramView::rank, "the rank that logged it"),
        field("edges", &HistogramView::edges, "the borders of the bins, ascending"),
        field("counts", &HistogramView::counts, "one less than edges"));
  }
};

struct HistogramList {
  std::vector<HistogramView> histograms{};
  bool more = false;

  static constexpr auto fields() {
    return record<HistogramList>(
        field("histograms", &HistogramList::histograms, "by name, step and rank"),
        field("more", &HistogramList::more, "there are more than the limit"));
  }
};

}  // namespace lockstep::api
