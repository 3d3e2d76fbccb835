// Media: the images and histograms that ranks log, by name, step and rank. An image is an artifact
// below `images/`, so equal ones are stored once. On the daemon's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/artifacts/artifacts.h"
#include "platform/core/model/ids.h"
#include "platform/store/database.h"

namespace lockstep::artifacts {

inline constexpr std::int64_t kHistogramsMax = 100'000;  // of a run

// The place of an image or a histogram in its run.
struct MediaKey {
  std::string name;
  std::int64_t step = 0;
  int rank = 0;
  int part = 0;  // of several images

  bool operator==(const MediaKey&) const = default;
};

struct LoggedImage {
  MediaKey key;
  Time time{};
  std::string caption{};
  std::string path{};
  std::string sha256{};
  std::int64_t size = 0;
};

struct LoggedHistogram {
  MediaKey key;
  Time time{};
  std::vector<double> edges{};
  std::vector<double> counts{};
};

struct MediaFilter {
  std::optional<std::string> name{};
  std::optional<int> rank{};
  std::optional<std::int64_t> after_step{};
  std::int64_t most = 1000;
  std::int64_t skip = 0;
};

class Media {
 public:
  // Both outlive this.
  Media(store::Database& database, Artifacts& artifacts)
      : database_(database), artifacts_(artifacts) {}

  // Replaces one of this key. Code::invalid: it is no PNG, JPEG, GIF or WebP file, or the name is
  // not one of a metric. Returns the image's SHA-256.
  Result<std::string> add_image(const model::RunId& run, const LoggedImage& image,
                                std::string_view bytes);
  // Code::invalid: the edges do not ascend, the counts are not one less, or one is not finite.
  Result<void> add_histogram(const model::RunId& run, const LoggedHistogram& histogram);
  // By name, step, rank and part.
  Result<std::vector<LoggedImage>> images(const model::RunId& run, const MediaFilter& filter);
  Result<std::vector<LoggedHistogram>> histograms(const model::RunId& run,
                                                  const MediaFilter& filter);
  // Code::not_found.
  Result<std::string> image_file(const model::RunId& run, const MediaKey& key);

 private:
  store::Database& database_;
  Artifacts& artifacts_;
};

}  // namespace lockstep::artifacts
