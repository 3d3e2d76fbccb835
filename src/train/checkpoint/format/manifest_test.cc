#include "train/checkpoint/format/manifest.h"

#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "base/format.h"

namespace lockstep::train {
namespace {

constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();

// A manifest with two tensors, one in two files, in which each case damages one field.
Manifest good_manifest() {
  const std::string sum(32, '0');
  Manifest manifest;
  manifest.optimizer = "sgd";
  manifest.files = {{"rank-0000.bin", 200, {sum}}, {"rank-0001.bin", kBlockBytes + 1, {sum, sum}}};
  manifest.tensors = {{"parameter/a", DataType::float32, {5, 2}, {{0, 4, 0, 64}, {4, 10, 1, 0}}},
                      {"parameter/b", DataType::int8, {8}, {{0, 8, 0, 192}}},
                      {"parameter/none", DataType::int8, {0, 1L << 62}, {}}};
  return manifest;
}

TEST(Manifest, IsReadAsItWasWritten) {
  const auto manifest = parse_manifest(text(good_manifest()));
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(text(*manifest), text(good_manifest()));
  EXPECT_EQ(manifest->find("parameter/a")->elements(), 10);
  EXPECT_EQ(manifest->find("parameter/c"), nullptr);
}

struct Lie {
  const char* name;
  std::function<void(Manifest&)> tell;
  const char* refusal;
};

class Lying : public ::testing::TestWithParam<Lie> {};

TEST_P(Lying, IsRefusedByName) {
  auto manifest = good_manifest();
  GetParam().tell(manifest);
  const auto parsed = parse_manifest(text(manifest));
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, Code::corrupt);
  EXPECT_NE(parsed.error().message.find(GetParam().refusal), std::string::npos)
      << parsed.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Manifest, Lying,
    ::testing::Values(
        Lie{"step", [](auto& m) { m.step = -1; }, "a count is negative"},
        Lie{"cursor", [](auto& m) { m.sampler_cursor = -1; }, "a count is negative"},
        Lie{"file_size", [](auto& m) { m.files[0].size = -1; }, "rank-0000.bin of -1 bytes"},
        Lie{"file_sums", [](auto& m) { m.files[0].size = kHuge; }, "rank-0000.bin has 1 checksums"},
        Lie{"file_twice", [](auto& m) { m.files[1] = m.files[0]; },
            "rank-0000.bin is listed twice"},
        Lie{"file_name", [](auto& m) { m.files[0].name = "rank-000x.bin"; }, "none of ours"},
        Lie{"way_out", [](auto& m) { m.files[0].name = "rank-../../x.bin"; }, "none of ours"},
        Lie{"no_file", [](auto& m) { m.tensors[1].slices[0].file = 2; }, "b: there is no file 2"},
        Lie{"file_below", [](auto& m) { m.tensors[1].slices[0].file = -1; }, "b: there is no file"},
        Lie{"behind_the_end", [](auto& m) { m.tensors[1].slices[0].offset = 193; }, "outside"},
        Lie{"before_the_begin", [](auto& m) { m.tensors[1].slices[0].offset = -1; }, "outside"},
        Lie{"absurd_offset", [](auto& m) { m.tensors[1].slices[0].offset = kHuge; }, "outside"},
        Lie{"hole", [](auto& m) { m.tensors[0].slices[1].begin = 5; }, "behind element 4"},
        Lie{"overlap", [](auto& m) { m.tensors[0].slices[1].begin = 3; }, "behind element 4"},
        Lie{"missing_end", [](auto& m) { m.tensors[0].slices[1].end = 9; },
            "a: elements 9 to 10 are missing"},
        Lie{"too_long", [](auto& m) { m.tensors[0].slices[1].end = 11; }, "of 10 elements"},
        Lie{"absurd_end", [](auto& m) { m.tensors[0].slices[1].end = kHuge; }, "of 10 elements"},
        Lie{"no_slices", [](auto& m) { m.tensors[0].slices.clear(); }, "elements 0 to 10"},
        Lie{"shared_bytes", [](auto& m) { m.tensors[1].slices[0].offset = 70; },
            "parameter/a and parameter/b share bytes of rank-0000.bin"},
        Lie{"negative_shape", [](auto& m) { m.tensors[0].shape = {-5, -2}; }, "no shape [-5, -2]"},
        Lie{"absurd_shape", [](auto& m) { m.tensors[0].shape = {1L << 31, 1L << 31, 1L << 31}; },
            "no shape"},
        Lie{"tensor_twice", [](auto& m) { m.tensors.push_back(m.tensors[0]); },
            "parameter/a is listed twice"}),
    [](const auto& one) { return one.param.name; });

TEST(Manifest, EveryByteOfItIsSummed) {
  const auto words = text(good_manifest());
  for (std::size_t at = 0; at < words.size(); ++at) {
    auto altered = words;
    altered[at] = static_cast<char>(altered[at] ^ 1);
    EXPECT_FALSE(parse_manifest(altered)) << "byte " << at;
    EXPECT_FALSE(parse_manifest(words.substr(0, at))) << "the first " << at << " bytes";
  }
}

TEST(Manifest, AnotherVersionIsRefusedWithWhatToDo) {
  auto later = good_manifest();
  later.version = 3;
  for (const auto& words : {text(later), std::string("{\n  \"version\": 1,\n  \"step\": 3\n}\n")}) {
    const auto parsed = parse_manifest(words);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, Code::invalid);
    EXPECT_NE(parsed.error().message.find("go on with the Lockstep that wrote it"),
              std::string::npos)
        << parsed.error().message;
  }
}

}  // namespace
}  // namespace lockstep::train
