// RunImport: sends what a file has recorded to a run of the daemon, each point once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/client/client.h"

namespace lockstep::cli {

struct ImportCounts {
  std::int64_t read = 0;    // points and reports of the files
  std::int64_t stored = 0;  // points that were new
  std::int64_t rejected = 0;
  std::int64_t media = 0;  // images and histograms
  std::string reason{};    // of the first rejected point
};

// The run for what has this key, made at the first import.
struct ImportTarget {
  std::string key;      // any text
  std::string source;   // "tensorboard"
  std::string name;     // of the run
  std::string project;  // empty: the caller's
};
Result<model::RunId> import_run(client::Client& client, const ImportTarget& target);

// The points of one source of a run. Batches end where the caller says, so that they do not depend
// on what was sent before.
class PointSender {
 public:
  // Both outlive this.
  PointSender(client::Client& client, model::RunId run, std::string source, ImportCounts& counts)
      : client_(client), run_(std::move(run)), source_(std::move(source)), counts_(counts) {}

  // The sequence up to which the daemon has the source.
  Result<std::int64_t> stored();
  void add(std::string_view metric, int rank, std::int64_t step, Time time, double value);
  std::size_t waiting() const { return steps_.size(); }
  // Sends the points that wait, in batches of at most 65,536; the last one has this sequence, those
  // before it the numbers below.
  Result<void> send(std::int64_t sequence);

 private:
  Result<void> send_part(std::size_t first, std::size_t count, std::int64_t sequence);

  client::Client& client_;
  const model::RunId run_;
  const std::string source_;
  ImportCounts& counts_;
  std::map<std::string, std::uint32_t, std::less<>> indices_;  // by rank and name
  std::vector<api::BatchSeries> series_;
  std::string key_;
  // The columns of the points that wait.
  std::vector<std::uint32_t> of_series_;
  std::vector<std::int64_t> steps_, times_;
  std::vector<double> values_;
};

Result<void> send_media(client::Client& client, const model::RunId& run,
                        const api::MediaRequest& request, ImportCounts& counts);

// "demo/7: 1,000 points, 400 of them new"; rejected ones go to standard error.
void print_counts(const model::RunId& run, const ImportCounts& counts);

}  // namespace lockstep::cli
