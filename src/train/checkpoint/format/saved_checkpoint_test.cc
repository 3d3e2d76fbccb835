#include "train/checkpoint/format/saved_checkpoint.h"

#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "base/format.h"
#include "train/checkpoint/format/layouts_for_test.h"

namespace lockstep::train {
namespace {

using namespace layouts_for_test;
namespace fs = std::filesystem;

class Saved : public ::testing::TestWithParam<RankLayout> {};

TEST_P(Saved, IsReadBitForBitByEveryOtherLayout) {
  const Folder folder;
  const auto checkpoint = SavedCheckpoint::open(save(folder, GetParam())).value();
  EXPECT_TRUE(checkpoint.verify());
  for (const auto& other : layouts())
    for (int rank = 0; rank < other.ranks; ++rank) {
      SCOPED_TRACE(other.name);
      expect_state(checkpoint, other, rank);
    }
}

TEST_P(Saved, HoldsEveryByteOnce) {
  std::int64_t bytes = 0, written = 0;
  for (const auto& tensor : whole_state()) bytes += tensor.end * bytes_of(tensor.type);
  const auto division = division_of(GetParam());
  for (const auto& tensor : division.tensors) written += tensor.bytes();
  EXPECT_EQ(written, bytes);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Saved, ::testing::ValuesIn(layouts()),
                         [](const auto& one) { return one.param.name; });

RankLayout layout_named(std::string_view name) {
  for (auto& layout : layouts())
    if (layout.name == name) return layout;
  return {};
}

void flip(const fs::path& path, std::int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(at);
  file.put(byte);
}

TEST(Saved, AFlippedByteIsFoundWhereverItIs) {
  const Folder folder;
  const auto path = save(folder, layout_named("zero3_3"));
  const auto manifest = SavedCheckpoint::open(path).value().manifest();
  for (const auto& file : manifest.files)
    for (std::int64_t at = 0; at < file.size; ++at) {
      flip(path / file.name, at);
      const auto verified = SavedCheckpoint::open(path).value().verify();
      flip(path / file.name, at);
      ASSERT_FALSE(verified) << file.name << " byte " << at;
      EXPECT_EQ(verified.error().code, Code::corrupt);
      EXPECT_NE(verified.error().message.find(file.name), std::string::npos)
          << verified.error().message;
    }
  EXPECT_TRUE(SavedCheckpoint::open(path).value().verify());
}

TEST(Saved, ARankReadsOnlyWhatItNeedsAndChecksThat) {
  const Folder folder;
  const auto layout = layout_named("zero3_3");
  const auto path = save(folder, layout);
  flip(path / "rank-0002.bin", 0);
  const auto checkpoint = SavedCheckpoint::open(path).value();
  expect_state(checkpoint, layout, 0);
  const auto damaged = read_as(checkpoint, held_by(layout, 2));
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Code::corrupt);
}

TEST(Saved, PartsOfManyBlocksAreReadAndChecked) {
  const Folder folder;
  // Three blocks and a bit; a read takes the end of one, one whole, and the start of the next.
  const std::int64_t elements = 3 * kBlockBytes / 8 + 5;
  std::string content(static_cast<std::size_t>(elements * 8), '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 + i / 251);
  auto file = DataWriter::create(folder / "rank-0000.bin").value();
  ASSERT_TRUE(file.append(content));
  Manifest manifest;
  manifest.files = {std::move(file).finish().value()};
  manifest.tensors = {{"a", DataType::int64, {elements}, {{0, elements, 0, 0}}}};
  const SavedCheckpoint checkpoint(folder, manifest);
  const std::int64_t begin = kBlockBytes / 8 - 3, end = 2 * kBlockBytes / 8 + 4;
  std::string part(static_cast<std::size_t>((end - begin) * 8), '?');
  ASSERT_TRUE(checkpoint.read({{&manifest.tensors[0], begin, end, part}}));
  EXPECT_TRUE(part == content.substr(static_cast<std::size_t>(begin * 8), part.size()));
  flip(folder / "rank-0000.bin", 3 * kBlockBytes + 1);
  EXPECT_TRUE(checkpoint.read({{&manifest.tensors[0], begin, end, part}}));
  EXPECT_FALSE(checkpoint.verify());
}

struct Damage {
  const char* name;
  std::function<void(const fs::path& checkpoint)> inflict;
  const char* reason;
};

class Torn : public ::testing::TestWithParam<Damage> {};

TEST_P(Torn, IsNamedAndTheOneBeforeIsFound) {
  const Folder folder;
  save(folder, layout_named("zero1_4"), 2);
  const auto path = save(folder, layout_named("zero1_4"), 3);
  GetParam().inflict(path);
  const auto torn = SavedCheckpoint::open(path);
  ASSERT_FALSE(torn);
  EXPECT_NE(torn.error().message.find(GetParam().reason), std::string::npos)
      << torn.error().message;
  EXPECT_EQ(newest_checkpoint(folder).value().manifest().step, 2);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoint, Torn,
    ::testing::Values(
        Damage{"truncated", [](auto& path) { fs::resize_file(path / "rank-0001.bin", 70); },
               "rank-0001.bin has 70 bytes"},
        Damage{"grown",
               [](auto& path) { std::ofstream(path / "rank-0003.bin", std::ios::app) << "x"; },
               "rank-0003.bin has"},
        Damage{"without_a_file", [](auto& path) { fs::remove(path / "rank-0002.bin"); },
               "rank-0002.bin: No such file"},
        Damage{"without_a_manifest", [](auto& path) { fs::remove(path / "manifest.json"); },
               "manifest.json: No such file"},
        Damage{"with_half_a_manifest",
               [](auto& path) { fs::resize_file(path / "manifest.json", 300); },
               "manifest.json: it was altered"},
        Damage{"with_data_elsewhere",
               [](auto& path) {
                 fs::rename(path / "rank-0000.bin", path / "data");
                 fs::create_symlink(path / "data", path / "rank-0000.bin");
               },
               "rank-0000.bin: Too many levels of symbolic links"},
        Damage{"of_another_step",
               [](auto& path) {
                 auto manifest = SavedCheckpoint::open(path).value().manifest();
                 manifest.step = 2;
                 ASSERT_TRUE(write_file(path / "manifest.json", train::text(manifest)));
               },
               "its manifest is of step 2"}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace lockstep::train
