// run.json has the folder's id. rank-N.jsonl has the reports of rank N as it would send them to its
// agent (docs/design/rank-interface.md), a line each; `media` has images and histograms, each a
// request of the API in a file.
#include "apps/import/offline_folder.h"

#include <charconv>
#include <fstream>
#include <map>
#include <utility>

#include "base/format.h"
#include "base/os/files.h"
#include "platform/api/json.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kItemsAtOnce = 1000;
constexpr std::size_t kBytesAtOnce = 1 << 20;
constexpr int kRanksMax = 100'000;

struct RunFile {
  std::string id{};
  std::string name{};

  static constexpr auto fields() {
    return record<RunFile>(required(field("id", &RunFile::id, "")),
                           field("name", &RunFile::name, ""));
  }
};

struct ReportLine {
  spool::TelemetryKind kind = spool::TelemetryKind::metrics;
  std::int64_t step = 0;
  std::int64_t steps = 0;
  std::int64_t time_us = 0;
  std::string path{};
  std::string text{};
  std::map<std::string, double> values{};

  static constexpr auto fields() {
    return record<ReportLine>(
        required(field("kind", &ReportLine::kind, "")), field("step", &ReportLine::step, ""),
        field("steps", &ReportLine::steps, ""), field("time_us", &ReportLine::time_us, ""),
        field("path", &ReportLine::path, ""), field("text", &ReportLine::text, ""),
        field("values", &ReportLine::values, ""));
  }
};

// None: "rank-7.jsonl" is the name of a rank's file, others are not.
std::optional<int> rank_of(const fs::path& file) {
  constexpr std::string_view kBegin = "rank-", kEnd = ".jsonl";
  const std::string name = file.filename().string();
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  const std::string_view digits =
      std::string_view(name).substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  int rank = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (failed != std::errc() || end != digits.data() + digits.size() || rank < 0 ||
      rank >= kRanksMax)
    return std::nullopt;
  return rank;
}

Result<spool::TelemetryItem> item_of(const std::string& line, int rank, std::int64_t number) {
  ReportLine report = TRY(from_json<ReportLine>(TRY(parse_json(line)), UnknownFields::ignore));
  return spool::TelemetryItem{
      .sequence = number,
      .kind = report.kind,
      .rank = rank,
      .step = report.step,
      .steps = report.steps,
      .time = Time(Duration(report.time_us)),
      .text =
          std::move(report.kind == spool::TelemetryKind::checkpoint ? report.path : report.text),
      .values = std::move(report.values)};
}

class RankImport {
 public:
  RankImport(client::Client& client, const model::RunId& run, int rank, ImportCounts& counts)
      : client_(client), run_(run), rank_(rank), counts_(counts) {}

  Result<void> import(const fs::path& file) {
    const std::int64_t stored = TRY(send());
    std::ifstream lines(file);
    std::string line;
    for (std::int64_t number = 1; std::getline(lines, line); ++number) {
      if (lines.eof()) break;  // a line without an end is not complete
      ++counts_.read;
      if (number <= stored) continue;
      add(line, number);
      if (items_.size() >= kItemsAtOnce || bytes_ >= kBytesAtOnce) TRY(send());
    }
    if (lines.bad()) return Error{Code::unavailable, format("{}: cannot be read", file.string())};
    TRY(send());
    return {};
  }

 private:
  void add(const std::string& line, std::int64_t number) {
    auto item = item_of(line, rank_, number);
    if (item) {
      counts_.stored += 1;
      bytes_ += line.size();
      items_.push_back(*std::move(item));
      return;
    }
    ++counts_.rejected;
    if (counts_.reason.empty())
      counts_.reason = format("line {} of rank {}: {}", number, rank_, item.error().message);
  }

  // Without items it only asks how far the daemon is.
  Result<std::int64_t> send() {
    api::ItemsRequest request{.part = rank_, .items = std::exchange(items_, {})};
    bytes_ = 0;
    const std::int64_t last = request.items.empty() ? 0 : request.items.back().sequence;
    const std::int64_t stored =
        TRY(client_.call(api::kAddItems, {.path = run_, .request = std::move(request)})).sequence;
    if (stored < last)
      return Error{Code::unavailable, "the daemon cannot store points now; try again later"};
    return stored;
  }

  client::Client& client_;
  const model::RunId& run_;
  const int rank_;
  ImportCounts& counts_;
  std::vector<spool::TelemetryItem> items_;
  std::size_t bytes_ = 0;
};

Result<void> import_media_file(client::Client& client, const model::RunId& run,
                               const fs::path& file, ImportCounts& counts) {
  auto json = parse_json(TRY(read_file(file)));
  auto request = json ? from_json<api::MediaRequest>(*json, UnknownFields::ignore)
                      : Result<api::MediaRequest>(json.error());
  if (request) return send_media(client, run, *request, counts);
  ++counts.rejected;
  if (counts.reason.empty())
    counts.reason = format("{}: {}", file.string(), request.error().message);
  return {};
}

}  // namespace

Result<OfflineRun> read_offline_run(const fs::path& folder) {
  const auto words = read_file(folder / "run.json");
  if (!words)
    return Error{Code::not_found,
                 format("{} has no run.json: it is no folder of LOCKSTEP_OFFLINE; event files of "
                        "TensorBoard are read by `lockstep import tensorboard FOLDER`",
                        folder.string())};
  auto json = parse_json(*words);
  auto read =
      json ? from_json<RunFile>(*json, UnknownFields::ignore) : Result<RunFile>(json.error());
  if (!read) return std::move(read).error().with_context((folder / "run.json").string());
  return OfflineRun{std::move(read->id), std::move(read->name)};
}

Result<void> import_offline(client::Client& client, const model::RunId& run, const fs::path& folder,
                            ImportCounts& counts) {
  for (const fs::path& file : TRY(list_folder(folder)))
    if (const auto rank = rank_of(file)) TRY(RankImport(client, run, *rank, counts).import(file));
  const auto media = list_folder(folder / "media");
  if (!media) return {};
  for (const fs::path& file : *media)
    if (file.extension() == ".json") TRY(import_media_file(client, run, file, counts));
  return {};
}

}  // namespace lockstep::cli
