// The reports of ranks, as the API returns them and as platform/insight reads them from the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::api {

struct Progress {
  std::int64_t step = 0;
  std::int64_t steps = 0;  // 0: unknown
  Time time{};

  static constexpr auto fields() {
    return record<Progress>(field("step", &Progress::step, "steps done"),
                            field("steps", &Progress::steps, "steps planned; 0 if unknown"),
                            field("time", &Progress::time, "when the rank reported it"));
  }
};

struct Checkpoint {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string path;
  Time time{};

  static constexpr auto fields() {
    return record<Checkpoint>(field("step", &Checkpoint::step, "the step it holds"),
                              field("epoch", &Checkpoint::epoch, "the attempt that wrote it"),
                              field("path", &Checkpoint::path, "its folder"),
                              field("time", &Checkpoint::time, "when it was committed"));
  }
};

struct LogLine {
  std::int64_t cursor = 0;  // of the daemon; ask for the lines after it
  std::int64_t epoch = 0;
  int rank = 0;
  std::string text;  // without the line end

  static constexpr auto fields() {
    return record<LogLine>(field("cursor", &LogLine::cursor, "position; ask for what follows it"),
                           field("epoch", &LogLine::epoch, "the attempt"),
                           field("rank", &LogLine::rank, "the rank that wrote it"),
                           field("text", &LogLine::text, "the line"));
  }
};

struct LogPage {
  std::vector<LogLine> lines;
  std::int64_t next = 0;
  bool ended = false;                    // the run has ended and no line follows
  std::vector<LogLine> unfinished = {};  // by rank
  std::int64_t unfinished_version = 0;

  static constexpr auto fields() {
    return record<LogPage>(field("lines", &LogPage::lines, "lines in the order they arrived"),
                           field("next", &LogPage::next, "ask again after this cursor"),
                           field("ended", &LogPage::ended, "the run ended; nothing follows"),
                           field("unfinished", &LogPage::unfinished,
                                 "the last line of each rank that has not ended its line, without "
                                 "a cursor; it comes again among `lines` once it ends"),
                           field("unfinished_version", &LogPage::unfinished_version,
                                 "differs when `unfinished` differs"));
  }
};

// Bytes [begin, end) of a line.
struct MatchedPart {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  bool operator==(const MatchedPart&) const = default;

  static constexpr auto fields() {
    return record<MatchedPart>(field("begin", &MatchedPart::begin, "its first byte in the line"),
                               field("end", &MatchedPart::end, "the byte after its last one"));
  }
};

// A line that matches, or is near one that does.
struct LogMatch {
  std::int64_t cursor = 0;
  std::int64_t epoch = 0;
  int rank = 0;
  std::string text = {};
  bool matches = false;
  std::vector<MatchedPart> parts = {};
  bool begins = false;

  static constexpr auto fields() {
    return record<LogMatch>(
        field("cursor", &LogMatch::cursor, "position of the line"),
        field("epoch", &LogMatch::epoch, "the attempt"),
        field("rank", &LogMatch::rank, "the rank that wrote it"),
        field("text", &LogMatch::text, "the line"),
        field("matches", &LogMatch::matches, "it matches; false: it is the context of one"),
        field("parts", &LogMatch::parts, "the bytes that match, from left to right, at most 100"),
        field("begins", &LogMatch::begins, "the line before it is not in the answer"));
  }
};

struct LogMatches {
  std::vector<LogMatch> lines = {};
  std::int64_t next = 0;
  bool ended = false;

  static constexpr auto fields() {
    return record<LogMatches>(
        field("lines", &LogMatches::lines, "lines in the order they arrived; may be empty"),
        field("next", &LogMatches::next, "the search continues after this cursor"),
        field("ended", &LogMatches::ended, "all lines that there are have been searched"));
  }
};

// The error that a rank printed before it failed.
struct RankError {
  int rank = 0;
  std::string host = {};
  std::string summary = {};
  std::vector<std::string> lines = {};

  static constexpr auto fields() {
    return record<RankError>(
        field("rank", &RankError::rank, "the rank that failed first"),
        field("host", &RankError::host, "where it ran"),
        field("summary", &RankError::summary, "its error in one line"),
        field("lines", &RankError::lines, "the message that it printed, such as a traceback"));
  }
};

struct Point {
  std::int64_t step = 0;
  Time time{};
  double value = 0;

  static constexpr auto fields() {
    return record<Point>(field("step", &Point::step, "training step"),
                         field("time", &Point::time, "when the rank logged it"),
                         field("value", &Point::value, "may be NaN or infinite"));
  }
};

// Over the ranks that logged a metric at a step.
enum class SeriesStatistic { mean, min, max, spread };
constexpr auto enum_names(SeriesStatistic) {
  return names<SeriesStatistic>({{SeriesStatistic::mean, "mean"},
                                 {SeriesStatistic::min, "min"},
                                 {SeriesStatistic::max, "max"},
                                 {SeriesStatistic::spread, "spread"}});
}

// Which series of a metric that several ranks have logged.
enum class RankSelection { aggregate, each };
constexpr auto enum_names(RankSelection) {
  return names<RankSelection>(
      {{RankSelection::aggregate, "aggregate"}, {RankSelection::each, "each"}});
}

struct Series {
  std::string name;
  int rank = 0;
  std::vector<Point> points;  // by step
  std::int64_t total = 0;
  bool downsampled = false;
  std::optional<int> node{};
  std::optional<SeriesStatistic> statistic{};
  std::vector<int> point_ranks{};

  static constexpr auto fields() {
    return record<Series>(field("name", &Series::name, "the metric"),
                          field("rank", &Series::rank, "the rank that logged it"),
                          field("points", &Series::points, "its points by step"),
                          field("total", &Series::total, "points that there are"),
                          field("downsampled", &Series::downsampled,
                                "points are only the first, last, least, greatest and first NaN "
                                "of each of some stretches of steps"),
                          field("node", &Series::node,
                                "of telemetry, the node; a step is then a time in seconds since "
                                "1970"),
                          field("statistic", &Series::statistic,
                                "over all ranks that logged the metric at a step; spread is the "
                                "standard deviation. With `node`: over each minute. null: the "
                                "series of one rank or node"),
                          field("point_ranks", &Series::point_ranks,
                                "of min and max: for each point the lowest rank that has this "
                                "value"));
  }
};

struct SeriesList {
  std::vector<Series> series;
  std::int64_t left_out = 0;
  std::int64_t removed = 0;
  bool ranks_removed = false;

  static constexpr auto fields() {
    return record<SeriesList>(
        field("series", &SeriesList::series, "the run's metrics"),
        field("left_out", &SeriesList::left_out,
              "series that the answer had no room for; ask for them by name or rank"),
        field("removed", &SeriesList::removed,
              "points of the run that were removed long after its end, or to make room"),
        field("ranks_removed", &SeriesList::ranks_removed,
              "of a query with `rank`: the points of single ranks were removed some time after "
              "they were logged; those over all ranks and of the lowest rank are there"));
  }
};

}  // namespace lockstep::api
