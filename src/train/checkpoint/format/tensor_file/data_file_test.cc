#include "train/checkpoint/format/tensor_file/data_file.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::train::data_file_test {
namespace {

constexpr std::size_t kMost = (9 << 20) + 1;

// Starts at a page boundary.
struct Free {
  void operator()(char* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

Memory numbers() {
  const auto pages = (kMost / DataWriter::kPage + 2) * DataWriter::kPage;
  Memory memory(static_cast<char*>(std::aligned_alloc(DataWriter::kPage, pages)));
  for (std::size_t i = 0; i < pages; ++i)
    memory.get()[i] = static_cast<char>(i * 7 + i / 4096 + (i >> 20) * 13);
  return memory;
}

SavedFile write(Result<DataWriter> file, std::string_view bytes, std::size_t piece) {
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    EXPECT_TRUE(file->append(bytes.substr(at, piece)));
  return std::move(*file).finish().value();
}

TEST(DataWriter, PastTheCacheItWritesTheSameWhereverPiecesBeginAndEnd) {
  // On a disk: a file system in memory has no cache in front of it.
  const auto path =
      std::filesystem::path(::testing::TempDir()) / format("lockstep-data-file-{}", ::getpid());
  const auto memory = numbers();
  for (const std::size_t begin : {0u, 1u})  // at a page, and not
    for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{4097},
                             std::size_t{5} << 20, kMost})
      for (std::size_t piece : {std::size_t{4} << 20, std::size_t{100'000}}) {
        const std::string_view bytes(memory.get() + begin, size);
        const auto cached = write(DataWriter::create(path), bytes, piece);
        const auto past = write(DataWriter::create_direct(path), bytes, piece);
        EXPECT_EQ(past.size, static_cast<std::int64_t>(size));
        EXPECT_EQ(past.checksums, cached.checksums) << begin << " " << size << " " << piece;
        EXPECT_TRUE(read_file(path, kMost).value() == bytes)
            << begin << " " << size << " " << piece;
      }
  std::filesystem::remove(path);
}

TEST(DataWriter, TheSumsAreXxh3WhateverPiecesAndInstructions) {
  const auto path =
      std::filesystem::path(::testing::TempDir()) / format("lockstep-sums-{}", ::getpid());
  const auto memory = numbers();
  const std::vector<std::string> expected{
      // XXH3_128bits() of each block, with SSE2
      "b3786cac8f3bc7aefebaab5ec381e8b5", "65880f83a943703e343558232f5fce18",
      "888177297270dc5fe1b4e03320c895a7"};
  for (const std::size_t piece : {std::size_t{1'000}, std::size_t{300'001}, kMost})
    EXPECT_EQ(write(DataWriter::create(path), {memory.get(), kMost}, piece).checksums, expected)
        << piece;
  std::filesystem::remove(path);
}

TEST(DataWriter, WhatIsStillComingIsWrittenAsFarAsItIsThere) {
  const auto path =
      std::filesystem::path(::testing::TempDir()) / format("lockstep-coming-{}", ::getpid());
  const auto memory = numbers();
  const std::string_view bytes(memory.get(), kMost);
  const auto expected = write(DataWriter::create(path), bytes, kMost).checksums;
  for (const bool past_cache : {false, true})
    for (const std::size_t step : {std::size_t{100'003}, std::size_t{5} << 20}) {
      const auto target = numbers();
      std::memset(target.get(), 0, kMost);
      std::atomic<std::size_t> there = 0;
      std::thread copying([&] {
        for (std::size_t at = 0; at < kMost; at += step) {
          bytes.copy(target.get() + at, step, at);
          there = std::min(at + step, kMost);
          there.notify_all();
        }
      });
      auto file = past_cache ? DataWriter::create_direct(path) : DataWriter::create(path);
      const auto written = file->append({target.get(), kMost}, [&](std::size_t count) {
        auto now = there.load();
        for (; now < count; now = there.load()) there.wait(now);
        return now;
      });
      copying.join();
      EXPECT_TRUE(written);
      EXPECT_EQ(std::move(*file).finish().value().checksums, expected) << past_cache << " " << step;
      EXPECT_TRUE(read_file(path, kMost).value() == bytes) << past_cache << " " << step;
    }
  std::filesystem::remove(path);
}

TEST(DataWriter, PastTheCacheAFileThatCannotBeMadeIsNamed) {
  const auto made = DataWriter::create_direct("/nowhere/at/all");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("/nowhere/at/all"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::train::data_file_test
