// The store when processes, disks and files fail.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/insight/series/detail/batch_record.h"
#include "platform/insight/series/detail/point_log.h"
#include "platform/insight/series/folder_blobs.h"
#include "platform/insight/series/folder_series.h"
#include "platform/insight/series/store_for_test.h"

namespace lockstep::insight::series {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

void eventually(const std::function<bool()>& done) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(60));
  while (!done() && !deadline.passed()) std::this_thread::yield();
  ASSERT_TRUE(done());
}

// --- The log ---

std::vector<std::string> records_in(const fs::path& folder, std::vector<std::string>& problems) {
  std::vector<std::string> records;
  const auto visit = [&](std::int64_t, ByteSpan payload) -> Result<void> {
    records.emplace_back(reinterpret_cast<const char*>(payload.data()), payload.size());
    return {};
  };
  EXPECT_TRUE(PointLog::open(folder, 0, visit, problems));
  return records;
}

TEST(PointLogTest, ALogThatIsCutOrDamagedAtAnyByteOfItsLastRecordLosesOnlyThatOne) {
  const TemporaryFolder source;
  std::vector<std::string> problems;
  {
    auto log =
        PointLog::open(source, 0, [](auto, auto) { return Result<void>(); }, problems).value();
    for (const char* record : {"first", "second", "the last record"})
      ASSERT_TRUE(log->append(record));
  }
  const std::string whole = read_file(source / "log-00000001").value();
  const std::size_t last = whole.size() - 12 - std::string("the last record").size();
  for (std::size_t at = last; at < whole.size(); ++at)
    for (const bool cut : {true, false}) {
      const TemporaryFolder folder;
      std::string content = cut ? whole.substr(0, at) : whole;
      if (!cut) content[at] = static_cast<char>(content[at] ^ 0x10);
      ASSERT_TRUE(write_file(folder / "log-00000001", content));
      problems.clear();
      EXPECT_THAT(records_in(folder, problems), ElementsAre("first", "second")) << at;
      EXPECT_THAT(problems, SizeIs(at == last && cut ? 0 : 1));
    }
}

TEST(PointLogTest, RecordsOfAnotherGenerationAreNotTaken) {
  const TemporaryFolder folder;
  std::vector<std::string> problems;
  {
    auto log =
        PointLog::open(folder, 0, [](auto, auto) { return Result<void>(); }, problems).value();
    ASSERT_TRUE(log->append("old"));
  }
  fs::rename(folder / "log-00000001", folder / "log-00000009");
  EXPECT_THAT(records_in(folder, problems), IsEmpty());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("log-00000009: the last 15 bytes")));
}

TEST(PointLogTest, BatchesComeBackWithoutRejectedSeries) {
  PointBatch batch = batch_of({point_at(5, 1), point_at(-7, -0.0)}, 3);
  batch.source = "node-1";
  batch.sequence = 99;
  batch.series.push_back({"cpu", RunPart::node, 7});
  batch.points.push_back({1, point_at(std::numeric_limits<std::int64_t>::max(), 4)});
  std::string bytes;
  encode_batch(batch, {true, true}, bytes);
  const LogRecord record = decode_record(bytes_of(bytes)).value();
  EXPECT_EQ(record.batch.attempt, batch.attempt);
  EXPECT_EQ(record.batch.source, "node-1");
  EXPECT_EQ(record.batch.sequence, 99);
  EXPECT_EQ(record.batch.series, batch.series);
  ASSERT_THAT(record.batch.points, SizeIs(3));
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(is_same(record.batch.points[i].point, batch.points[i].point));
  encode_batch(batch, {true, false}, bytes);
  EXPECT_THAT(decode_record(bytes_of(bytes)).value().batch.points, SizeIs(2));
  for (std::size_t size = 0; size + 1 < bytes.size(); ++size)
    if (auto cut = decode_record(bytes_of(bytes.substr(0, size)))) {
      EXPECT_LT(cut->batch.points.size(), 2u);
    }
}

// --- Killed processes ---

// Batches of several sizes, each with its number as its mark.
PointBatch numbered_batch(std::int64_t number) {
  std::vector<SeriesPoint> points;
  for (std::int64_t i = 0; i < 1 + number % 50; ++i)
    points.push_back(point_at(100 * number + i, static_cast<double>(number)));
  PointBatch batch = batch_of(points);
  batch.source = "node-0";
  batch.sequence = number;
  return batch;
}

// Appends until it is killed; writes each acknowledged number to the pipe.
[[noreturn]] void append_until_killed(const fs::path& folder, int acknowledged) {
  auto store = open_folder_series(folder, {.seal = 20'000_B});
  if (!store) ::_exit(1);
  std::int64_t number = (*store)->stored_sequence(kTestRun, "node-0").value();
  while ((*store)->append(numbered_batch(++number)))
    if (::write(acknowledged, &number, sizeof number) != sizeof number) break;
  ::_exit(1);
}

TEST(Kill, NothingThatWasAcknowledgedIsLostOrDoubled) {
  const TemporaryFolder folder;
  std::int64_t acknowledged = 0;
  for (int round = 0; round < 15; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) append_until_killed(folder, ends[1]);
    ::close(ends[1]);
    const std::int64_t until = acknowledged + 1 + round * 37;
    std::int64_t number = 0;
    while (number < until && ::read(ends[0], &number, sizeof number) == sizeof number) continue;
    ASSERT_GE(number, until);
    ::kill(child, SIGKILL);
    while (::read(ends[0], &number, sizeof number) == sizeof number) continue;
    ::close(ends[0]);
    ::waitpid(child, nullptr, 0);
    acknowledged = number;

    const auto store = open_folder_series(folder).value();
    const std::int64_t stored = store->stored_sequence(kTestRun, "node-0").value();
    ASSERT_GE(stored, acknowledged);
    ASSERT_LE(stored, acknowledged + 1) << "at most the batch in flight";
    Truth truth;
    for (std::int64_t each = 1; each <= stored; ++each) {
      truth.add(numbered_batch(each));
      if (each > stored - 3) {
        ASSERT_TRUE(store->append(numbered_batch(each))->repeated);
      }
    }
    expect_all(*store, truth);
    acknowledged = stored;
  }
}

// --- Disks ---

// Objects whose writing fails while `full`.
class FailingBlobs : public Blobs {
 public:
  FailingBlobs(fs::path folder, const std::atomic<bool>& full)
      : blobs_(std::move(folder)), full_(full) {}
  Result<std::unique_ptr<BlobWriter>> create(const std::string& name) override {
    if (full_) return Error{Code::exhausted, "no space is left"};
    return blobs_.create(name);
  }
  Result<std::shared_ptr<const Blob>> open(const std::string& name) override {
    return blobs_.open(name);
  }
  Result<std::vector<BlobName>> list() override { return blobs_.list(); }
  Result<void> remove(const std::string& name) override { return blobs_.remove(name); }

 private:
  FolderBlobs blobs_;
  const std::atomic<bool>& full_;
};

TEST(FullDisk, PointsStayInTheLogAreRefusedAtTheBoundAndSealedWhenThereIsRoom) {
  const TemporaryFolder folder;
  std::atomic<bool> full = true;
  Truth truth;
  const auto store = open_series(folder, std::make_unique<FailingBlobs>(folder / "segments", full),
                                 {.seal = 10'000_B, .memory = 50'000_B})
                         .value();
  std::int64_t number = 0;
  std::string refusal;
  while (refusal.empty() && number < 10'000) {
    const auto appended = store->append(numbered_batch(number + 1));
    if (!appended) {
      refusal = appended.error().message;
    } else {
      truth.add(numbered_batch(++number));
    }
  }
  EXPECT_THAT(refusal, HasSubstr("no space is left"));
  EXPECT_THAT(store->problems(), ElementsAre(HasSubstr("sealing the points of demo/42")));
  expect_all(*store, truth);
  full = false;
  eventually([&] { return store->append(numbered_batch(number + 1)).has_value(); });
  truth.add(numbered_batch(number + 1));
  expect_all(*store, truth);
  EXPECT_TRUE(store->sync());
}

std::vector<fs::path> segments_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;  // there is no folder before the first segment
  for (const auto& entry : fs::recursive_directory_iterator(folder / "segments", ignored))
    if (entry.is_regular_file() && entry.path().extension() != ".tmp")
      found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

void change_byte(const fs::path& path, std::size_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x55));
}

// Three segments of 1,000 points each, and nothing in the log.
void make_segments(const fs::path& folder) {
  for (std::int64_t part = 0; part < 3; ++part) {
    const auto store = open_folder_series(folder, {.seal = 1_B}).value();
    std::vector<SeriesPoint> points;
    for (std::int64_t step = 0; step < 1000; ++step)
      points.push_back(point_at(1000 * part + step, 0.5 * static_cast<double>(step * step % 977)));
    ASSERT_TRUE(store->append(batch_of(points)));
    eventually([&] { return segments_in(folder).size() == static_cast<std::size_t>(part) + 1; });
  }
}

TEST(Damage, ASegmentWithoutItsIndexIsSetAsideAndTheOthersAnswer) {
  const TemporaryFolder folder;
  make_segments(folder);
  const auto files = segments_in(folder);
  ASSERT_THAT(files, SizeIs(3));
  fs::resize_file(files[1], fs::file_size(files[1]) - 1);
  const auto store = open_folder_series(folder).value();
  const Curve curve =
      store->curve({.run = kTestRun, .series = kLoss, .epoch = {}, .range = {}}).value();
  EXPECT_EQ(curve.total, 2000);
  EXPECT_EQ(curve.unreadable, 1);
  EXPECT_THAT(store->problems(), ElementsAre(HasSubstr("is set aside: the segment is damaged")));
  EXPECT_TRUE(fs::exists(files[1])) << "for repair";
  EXPECT_EQ(store->latest(kTestRun, {}, 10)->series.at(0).count, 2000);
}

TEST(Damage, ADamagedByteCostsAtMostItsChunkAndIsReported) {
  const TemporaryFolder folder;
  make_segments(folder);
  const auto file = segments_in(folder).at(1);
  const std::size_t size = fs::file_size(file);
  for (std::size_t at = 8; at < size; at += 1 + size / 60) {
    change_byte(file, at);
    {
      const auto store = open_folder_series(folder).value();
      const auto points = all_pages(*store, kLoss, 5000);
      EXPECT_TRUE(points.size() == 3000 || points.size() == 2000) << at;
      const CurveQuery query{
          .run = kTestRun, .series = kLoss, .epoch = {}, .range = {}, .pixels = 5};
      const Curve curve = store->curve(query).value();
      EXPECT_TRUE(curve.total >= 2000 && curve.total <= 3000) << at;
      if (points.size() < 3000) {
        EXPECT_THAT(store->problems(), SizeIs(1)) << at;
      }
    }
    change_byte(file, at);
  }
  EXPECT_THAT(all_pages(*open_folder_series(folder).value(), kLoss, 5000), SizeIs(3000));
}

bool is_merged(const fs::path& path) { return !path.string().ends_with("-0"); }

TEST(Merge, EightSegmentsBecomeOneAndThoseLeftByAKilledProcessAreRemoved) {
  const TemporaryFolder folder;
  Truth truth;
  {
    const auto store = open_folder_series(folder, {.seal = 1_B}).value();
    std::int64_t number = 0;
    eventually([&] {
      truth.add(numbered_batch(++number));
      EXPECT_TRUE(store->append(numbered_batch(number)));
      return std::ranges::any_of(segments_in(folder), is_merged);
    });
    expect_all(*store, truth);
  }
  const auto merged = segments_in(folder);
  // A copy of a merged segment's name at a lower level, as if it had not been removed.
  const auto whole = std::ranges::find_if(merged, is_merged);
  ASSERT_NE(whole, merged.end());
  std::string left = whole->string();
  left.back() = '0';
  fs::copy_file(*whole, left);
  const auto store = open_folder_series(folder).value();
  expect_all(*store, truth);
  eventually([&] { return !fs::exists(left); });
}

}  // namespace
}  // namespace lockstep::insight::series
