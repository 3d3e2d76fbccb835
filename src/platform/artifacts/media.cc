#include "platform/artifacts/media.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <tuple>
#include <utility>

#include <unistd.h>

#include "base/format.h"
#include "base/utf8.h"
#include "net/crypto.h"
#include "text/convert.h"
#include "text/json.h"
#include "text/record.h"

namespace lockstep::artifacts {
namespace {

using Int = std::int64_t;
using Text = std::string;

constexpr std::string_view kImage = "image", kHistogram = "histogram";
constexpr std::size_t kNameMax = 256;
constexpr std::size_t kCaptionMax = 1'000;

struct Bins {
  std::vector<double> edges{};
  std::vector<double> counts{};

  static constexpr auto fields() {
    return record<Bins>(field("edges", &Bins::edges, ""), field("counts", &Bins::counts, ""));
  }
};

bool is_control(char letter) {
  return static_cast<unsigned char>(letter) < 0x20 || letter == '\x7f';
}

// As for metrics.
Result<void> check_media_name(std::string_view name) {
  if (!name.empty() && name.size() <= kNameMax && is_utf8(name) &&
      std::ranges::none_of(name, is_control))
    return {};
  return Error{
      Code::invalid,
      format("name: has 1 to {} bytes of UTF-8, none of them control characters", kNameMax)};
}

struct ImageForm {
  std::string_view begin, end;  // of the file's first bytes, and of its name
};
constexpr std::array kForms = {ImageForm{"\x89PNG\r\n\x1a\n", ".png"},
                               ImageForm{"\xff\xd8\xff", ".jpg"}, ImageForm{"GIF8", ".gif"},
                               ImageForm{"RIFF", ".webp"}};

// Others, such as SVG, may contain programs.
Result<std::string_view> form_of(std::string_view bytes) {
  for (const ImageForm& form : kForms)
    if (bytes.starts_with(form.begin)) return form.end;
  return Error{Code::invalid, "data: is no PNG, JPEG, GIF or WebP file"};
}

// A name that cannot be a path is replaced by its digest.
Text path_of(const MediaKey& key, std::string_view end) {
  const Text file = format("{}-{}-{}{}", key.step, key.rank, key.part, end);
  auto path = checked_path("images/" + key.name + "/" + file);
  if (path) return *std::move(path);
  net::Sha256 digest;
  digest.add(key.name);
  return "images/" + digest.hex() + "/" + file;
}

constexpr std::string_view kSave =
    "insert into media (project, number, kind, name, step, rank, part, time, caption, path, bins) "
    "values (:project, :number, :kind, :name, :step, :rank, :part, :time, :caption, :path, :bins) "
    "on conflict do update set time = excluded.time, caption = excluded.caption, path = "
    "excluded.path, bins = excluded.bins";

constexpr std::string_view kMatches =
    " project = :project and number = :number and kind = :kind and (:name is null or name = :name) "
    "and (:rank is null or rank = :rank) and (:after is null or step > :after) "
    "order by name, step, rank, part limit :most offset :skip";

Result<void> check_bins(const LoggedHistogram& histogram) {
  const auto& [key, time, edges, counts] = histogram;
  if (counts.empty() || edges.size() != counts.size() + 1)
    return Error{Code::invalid, "edges: there is one more than there are counts, and a bin"};
  const auto is_finite = [](double number) { return std::isfinite(number); };
  if (!std::ranges::all_of(edges, is_finite) || !std::ranges::all_of(counts, is_finite))
    return Error{Code::invalid, "edges and counts are finite numbers"};
  if (!std::ranges::is_sorted(edges)) return Error{Code::invalid, "edges: ascend"};
  return {};
}

}  // namespace

Result<Text> Media::add_image(const model::RunId& run, const LoggedImage& image,
                              std::string_view bytes) {
  TRY(check_media_name(image.key.name));
  if (image.caption.size() > kCaptionMax || !is_utf8(image.caption))
    return Error{Code::invalid, format("caption: has at most {} bytes of UTF-8", kCaptionMax)};
  const Text path = path_of(image.key, TRY(form_of(bytes)));
  const auto incoming = TRY(artifacts_.begin());
  TRY(incoming->add(bytes));
  const Artifact artifact = TRY(artifacts_.add(run, path, *incoming));
  TRY(database_.execute(kSave, run.project, run.number, kImage, image.key.name, image.key.step,
                        image.key.rank, image.key.part, image.time, image.caption, path, Text()));
  return artifact.sha256;
}

Result<void> Media::add_histogram(const model::RunId& run, const LoggedHistogram& histogram) {
  TRY(check_media_name(histogram.key.name));
  TRY(check_bins(histogram));
  const auto count = TRY(database_.rows<Int>(
      "select count(*) from media where project = :project and number = :number and kind = "
      "'histogram'",
      run.project, run.number));
  if (std::get<0>(count.front()) >= kHistogramsMax)
    return Error{Code::invalid, format("a run has at most {} histograms", kHistogramsMax)};
  return database_.execute(kSave, run.project, run.number, kHistogram, histogram.key.name,
                           histogram.key.step, histogram.key.rank, histogram.key.part,
                           histogram.time, Text(), Text(),
                           dump_json(to_json(Bins{histogram.edges, histogram.counts})));
}

Result<std::vector<LoggedImage>> Media::images(const model::RunId& run, const MediaFilter& filter) {
  std::vector<LoggedImage> found;
  for (auto& [name, step, rank, part, time, caption, path] :
       TRY((database_.rows<Text, Int, int, int, Time, Text, Text>(
           "select name, step, rank, part, time, caption, path from media where" + Text(kMatches),
           run.project, run.number, kImage, filter.name, filter.rank, filter.after_step,
           filter.most, filter.skip)))) {
    LoggedImage image{.key = {std::move(name), step, rank, part},
                      .time = time,
                      .caption = std::move(caption),
                      .path = std::move(path)};
    // Clients of MLflow may have removed it.
    if (auto artifact = artifacts_.find(run, image.path)) {
      image.sha256 = std::move(artifact->sha256);
      image.size = artifact->size;
    }
    found.push_back(std::move(image));
  }
  return found;
}

Result<std::vector<LoggedHistogram>> Media::histograms(const model::RunId& run,
                                                       const MediaFilter& filter) {
  std::vector<LoggedHistogram> found;
  for (auto& [name, step, rank, part, time, words] :
       TRY((database_.rows<Text, Int, int, int, Time, Text>(
           "select name, step, rank, part, time, bins from media where" + Text(kMatches),
           run.project, run.number, kHistogram, filter.name, filter.rank, filter.after_step,
           filter.most, filter.skip)))) {
    Bins bins = TRY(from_json<Bins>(TRY(parse_json(words))));
    found.push_back({.key = {std::move(name), step, rank, part},
                     .time = time,
                     .edges = std::move(bins.edges),
                     .counts = std::move(bins.counts)});
  }
  return found;
}

Result<Text> Media::image_file(const model::RunId& run, const MediaKey& key) {
  const auto known = TRY(database_.rows<Text>(
      "select path from media where project = :project and number = :number and kind = 'image' and "
      "name = :name and step = :step and rank = :rank and part = :part",
      run.project, run.number, key.name, key.step, key.rank, key.part));
  if (known.empty())
    return Error{Code::not_found,
                 format("{} has no image {} of step {}", text(run), key.name, key.step)};
  const Artifact artifact = TRY(artifacts_.find(run, std::get<0>(known.front())));
  const Fd file = TRY(artifacts_.open(artifact));
  Text bytes(static_cast<std::size_t>(artifact.size), '\0');
  std::size_t read = 0;
  while (read < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + read, bytes.size() - read);
    if (got < 0) return os_error("reading an image", errno);
    if (got == 0) return Error{Code::corrupt, "the file of an image is too short"};
    read += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace lockstep::artifacts
