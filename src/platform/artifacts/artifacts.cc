#include "platform/artifacts/artifacts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"
#include "base/utf8.h"

namespace lockstep::artifacts {
namespace {

namespace fs = std::filesystem;
using Int = std::int64_t;
using Text = std::string;

constexpr std::uintmax_t kDiskReserve = 1u << 30;  // for the states of runs
constexpr Int kRemovedAtOnce = 64;
constexpr Int kWriteBack = 8 << 20;  // bytes

bool has_encoded_sign(std::string_view part) {
  constexpr std::array<std::string_view, 4> kSigns = {"%2e", "%2f", "%5c", "%00"};
  Text lower(part);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(kSigns,
                             [&](std::string_view sign) { return lower.find(sign) != Text::npos; });
}

bool is_control_sign(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

Result<void> check_part(std::string_view part) {
  if (part.empty() || part == "." || part == "..")
    return Error{Code::invalid,
                 "the path of an artifact is relative, without empty parts, '.' "
                 "and '..'"};
  if (part.find_first_of("/\\") != std::string_view::npos ||
      std::ranges::any_of(part, is_control_sign) || !is_utf8(part) || has_encoded_sign(part))
    return Error{Code::invalid,
                 "the path of an artifact is UTF-8 without backslashes, control "
                 "characters and percent-encoded ones"};
  return {};
}

// Paths below "a/" are from "a/" to before "a0": '0' follows '/'.
struct Range {
  Text from, to;
};
Range below(const Text& folder) { return {folder + "/", folder + "0"}; }

}  // namespace

Result<Text> checked_path(const std::vector<Text>& parts) {
  if (parts.empty()) return Error{Code::invalid, "the path of an artifact is missing"};
  for (const Text& part : parts) TRY(check_part(part));
  Text path = joined(parts, "/");
  if (path.size() <= kPathMax) return path;
  return Error{Code::invalid, format("the path of an artifact has at most {} bytes", kPathMax)};
}

Result<Text> checked_path(std::string_view path) {
  std::vector<Text> parts;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    parts.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
  return checked_path(parts);
}

// --- IncomingArtifact ---

IncomingArtifact::~IncomingArtifact() { ::unlink(path_.c_str()); }

Result<void> IncomingArtifact::add(std::string_view part) {
  if (auto written = write_all(file_.get(), part); !written)
    return std::move(written).error().with_context("storing an artifact");
  digest_.add(part);
  size_ += std::ssize(part);
  if (size_ - written_back_ < kWriteBack) return {};
  // Begins to write, and does not wait: so little is left for the end.
  ::sync_file_range(file_.get(), written_back_, size_ - written_back_, SYNC_FILE_RANGE_WRITE);
  written_back_ = size_;
  return {};
}

// --- Artifacts ---

Artifacts::Artifacts(store::Database& database, fs::path folder, const Text& incoming)
    : database_(database), folder_(std::move(folder)), incoming_folder_(folder_ / incoming) {
  std::error_code ignored;
  fs::remove_all(incoming_folder_, ignored);
}

fs::path Artifacts::file_of(const Text& sha256) const {
  return folder_ / "files" / sha256.substr(0, 2) / sha256;
}

Result<std::unique_ptr<IncomingArtifact>> Artifacts::begin() {
  const fs::path& folder = incoming_folder_;
  TRY(make_folders(folder));
  std::error_code failed;
  const fs::space_info disk = fs::space(folder, failed);
  if (!failed && disk.available < std::min(kDiskReserve, disk.capacity / 20))
    return Error{Code::exhausted, "the daemon's disk has no room for artifacts: make some"};
  fs::path path = folder / format("{}", ++incoming_);
  Fd file = TRY(open_file(path, O_WRONLY | O_CREAT | O_EXCL));
  return std::make_unique<IncomingArtifact>(std::move(path), std::move(file));
}

Result<void> Artifacts::check_path_is_free(const model::RunId& run, const Text& path) {
  for (std::size_t end = path.find('/'); end != Text::npos; end = path.find('/', end + 1))
    if (find(run, path.substr(0, end)))
      return Error{Code::invalid, format("{} is an artifact, not a folder", path.substr(0, end))};
  const auto [from, to] = below(path);
  if (!TRY(database_.rows<Int>("select 1 from artifacts where project = :project and number = "
                               ":number and path > :from and path < :to limit 1",
                               run.project, run.number, from, to))
           .empty())
    return Error{Code::invalid, format("{} is a folder of artifacts", path)};
  const auto count = TRY(database_.rows<Int>(
      "select count(*) from artifacts where project = :project and number = :number", run.project,
      run.number));
  if (std::get<0>(count.front()) < kArtifactsMax) return {};
  return Error{Code::invalid, format("a run has at most {} artifacts", kArtifactsMax)};
}

// The content is garbage until its row is there, so a daemon that ends in between removes it later.
Result<Artifact> Artifacts::add(const model::RunId& run, const Text& path,
                                IncomingArtifact& incoming) {
  TRY(check_path_is_free(run, path));
  Artifact artifact{.path = path, .size = incoming.size_, .sha256 = incoming.digest_.hex()};
  TRY(database_.execute("insert or ignore into artifact_garbage (sha256) values (:sha256)",
                        artifact.sha256));
  const fs::path file = file_of(artifact.sha256);
  TRY(make_folders(file.parent_path()));
  if (::fdatasync(incoming.file_.get()) != 0) return os_error("storing " + file.string(), errno);
  if (::rename(incoming.path_.c_str(), file.c_str()) != 0)
    return os_error("storing " + file.string(), errno);
  TRY(sync_folder(file.parent_path()));
  TRY(database_.execute(
      "insert into artifacts (project, number, path, sha256, size) values (:project, :number, "
      ":path, :sha256, :size) on conflict do update set sha256 = excluded.sha256, size = "
      "excluded.size",
      run.project, run.number, path, artifact.sha256, artifact.size));
  return artifact;
}

Result<std::vector<Artifact>> Artifacts::list(const model::RunId& run, const Text& folder) {
  const Range range = folder.empty() ? Range{"", "\U0010FFFF"} : below(folder);
  const std::size_t skip = folder.empty() ? 0 : folder.size() + 1;
  std::vector<Artifact> found;
  for (auto& [path, sha256, size] : TRY((database_.rows<Text, Text, Int>(
           "select path, sha256, size from artifacts where project = :project and number = "
           ":number and path > :from and path < :to order by path",
           run.project, run.number, range.from, range.to)))) {
    const std::size_t end = path.find('/', skip);
    if (end == Text::npos)
      found.push_back({.path = std::move(path), .size = size, .sha256 = std::move(sha256)});
    else if (found.empty() || found.back().path != path.substr(0, end))
      found.push_back({.path = path.substr(0, end), .is_folder = true});
  }
  // "a-b" is between "a" and "a/b": a folder may be in several places.
  std::ranges::sort(found, {}, &Artifact::path);
  const auto twice = std::ranges::unique(found, {}, &Artifact::path);
  found.erase(twice.begin(), twice.end());
  return found;
}

Result<Artifact> Artifacts::find(const model::RunId& run, const Text& path) {
  for (auto& [sha256, size] : TRY((database_.rows<Text, Int>(
           "select sha256, size from artifacts where project = :project and number = :number and "
           "path = :path",
           run.project, run.number, path))))
    return Artifact{.path = path, .size = size, .sha256 = std::move(sha256)};
  return Error{Code::not_found, format("{} has no artifact {}", text(run), path)};
}

Result<Fd> Artifacts::open(const Artifact& artifact) const {
  return open_file(file_of(artifact.sha256), O_RDONLY | O_NOFOLLOW);
}

Result<bool> Artifacts::remove(const model::RunId& run, const Text& path) {
  const auto [from, to] = below(path);
  return !TRY(database_.rows<Text>(
                  "delete from artifacts where project = :project and number = :number and (path = "
                  ":path or (path > :from and path < :to)) returning path",
                  run.project, run.number, path, from, to))
              .empty();
}

// A content may have come again since it became garbage.
Result<bool> Artifacts::clean_up() {
  const auto garbage =
      TRY(database_.rows<Text>("select sha256 from artifact_garbage limit :most", kRemovedAtOnce));
  for (const auto& [sha256] : garbage) {
    const bool used =
        !TRY(database_.rows<Int>("select 1 from artifacts where sha256 = :sha256 limit 1", sha256))
             .empty();
    const fs::path file = file_of(sha256);
    if (!used && ::unlink(file.c_str()) != 0 && errno != ENOENT)
      return os_error("removing " + file.string(), errno);
    TRY(database_.execute("delete from artifact_garbage where sha256 = :sha256", sha256));
  }
  return std::ssize(garbage) == kRemovedAtOnce;
}

}  // namespace lockstep::artifacts
