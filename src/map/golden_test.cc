// Reads tests/golden/map/NAME.yaml as a map. NAME.expected holds the error or, for a valid map, the
// tree and the map as it is written. LOCKSTEP_UPDATE_GOLDEN=1 rewrites the expected files.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/random.h"
#include "map/map_file.h"
#include "map/tree.h"

namespace lockstep::map {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> cases() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(LOCKSTEP_GOLDEN) / "map"))
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string outcome(const fs::path& path) {
  auto map = parse_map(read_file(path).value(), path.filename().string());
  if (!map) return map.error().message + "\n";
  return text(*map) + "\n" + dump_map(*map);
}

class Golden : public testing::TestWithParam<fs::path> {};

TEST_P(Golden, IsReadAsExpected) {
  fs::path expected = fs::path(GetParam()).replace_extension(".expected");
  std::string got = outcome(GetParam());
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file(expected, got, 0644));
  }
  EXPECT_EQ(got, read_file(expected).value_or("(no such file)"));
}

// Bytes of a good and a bad neighbourhood put anywhere: each result is a map or a one-line error.
TEST_P(Golden, AnyMutationIsAnswered) {
  constexpr std::string_view kBytes = "{}[]:,-&*!|>'\"%@`#?~ \t\n0.eE\xff\xc3\x80\\ab";
  std::string original = read_file(GetParam()).value() + " ";
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    std::string words = original;
    for (std::uint64_t i = 0; i <= random.below(4); ++i)
      words[random.below(words.size())] = kBytes[random.below(kBytes.size())];
    auto map = parse_map(words, "x.yaml");
    if (map)
      EXPECT_EQ(parse_map(dump_map(*map), "x.yaml").value(), *map) << words;
    else
      EXPECT_TRUE(map.error().message.starts_with("x.yaml:") &&
                  map.error().message.find('\n') == std::string::npos)
          << map.error().message;
  }
}

INSTANTIATE_TEST_SUITE_P(ClusterMap, Golden, testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = test.param.stem();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace lockstep::map
