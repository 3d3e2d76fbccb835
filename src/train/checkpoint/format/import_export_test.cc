#include "train/checkpoint/format/import_export.h"

#include <functional>

#include <gtest/gtest.h>

#include "base/format.h"
#include "train/checkpoint/format/layouts_for_test.h"
#include "train/checkpoint/format/tensor_file/safetensors.h"

namespace lockstep::train {
namespace {

using namespace layouts_for_test;
namespace fs = std::filesystem;

// A file of another program: two tensors, in another order.
std::string foreign_file() {
  const std::string header =
      R"({"w":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},)"
      R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}, "__metadata__":{"format":"pt"}})";
  std::string words{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  return words + header + "ABcdefghij";
}

TEST(Safetensors, AnExportIsWhatTheFormatSays) {
  const Folder folder;
  const auto path = save(folder, layouts()[3]);
  const auto file = folder / "model.safetensors";
  const auto done = export_safetensors(SavedCheckpoint::open(path).value(), file);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->tensors, 4);

  const auto words = read_file(file).value();
  const auto size = safetensors_header_size(words.substr(0, 8)).value();
  const auto data = words.substr(static_cast<std::size_t>(8 + size));
  const auto header = parse_safetensors(words.substr(8, static_cast<std::size_t>(size)),
                                        static_cast<std::int64_t>(data.size()))
                          .value();
  std::vector<std::string> names;
  for (const auto& tensor : header.tensors) {
    names.push_back(tensor.name);
    const std::string kind = tensor.name == "count" ? "buffer/" : "parameter/";
    const auto bytes = tensor.end - tensor.begin;
    EXPECT_EQ(data.substr(static_cast<std::size_t>(tensor.begin), static_cast<std::size_t>(bytes)),
              content_of(kind + tensor.name, 0, bytes));
    EXPECT_EQ(tensor.begin % bytes_of(tensor.type), 0) << tensor.name << " is aligned";
  }
  EXPECT_EQ(names, (std::vector<std::string>{"count", "embedding", "none", "bias"}));
  EXPECT_EQ(header.metadata.at("lockstep.note.layers"), "4");
}

TEST(Safetensors, WhatIsExportedAndImportedIsTheSameModel) {
  const Folder folder;
  const auto path = save(folder / "trained", layouts()[5]);
  const auto file = folder / "model.safetensors";
  ASSERT_TRUE(export_safetensors(SavedCheckpoint::open(path).value(), file));
  const auto done = import_safetensors(file, folder / "new");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->tensors, 4);
  const auto checkpoint = newest_checkpoint(folder / "new").value();
  EXPECT_TRUE(checkpoint.verify());
  EXPECT_EQ(checkpoint.manifest().step, 0);
  EXPECT_EQ(checkpoint.manifest().optimizer, kNoOptimizer);
  EXPECT_EQ(checkpoint.manifest().notes.at("layers"), "4");
  for (const auto& held : whole_state()) {
    if (held.name.starts_with("exp_avg/")) continue;
    const auto contents = read_as(checkpoint, {held});
    ASSERT_TRUE(contents) << contents.error().message;
    EXPECT_EQ(contents->front(), content_of(held)) << held.name;
  }
}

TEST(Safetensors, AFileOfAnotherProgramIsImported) {
  const Folder folder;
  ASSERT_TRUE(write_file(folder / "foreign", foreign_file()));
  const auto done = import_safetensors(folder / "foreign", folder / "new");
  ASSERT_TRUE(done) << done.error().message;
  const auto checkpoint = newest_checkpoint(folder / "new").value();
  EXPECT_EQ(read_as(checkpoint, {{"parameter/w", DataType::float32, {2, 1}, 0, 2},
                                 {"parameter/b", DataType::bfloat16, {1}, 0, 1}})
                .value(),
            (std::vector<std::string>{"cdefghij", "AB"}));
}

TEST(Safetensors, AnImportDoesNotTouchAFolderWithCheckpoints) {
  const Folder folder;
  save(folder / "trained", layouts()[0]);
  ASSERT_TRUE(write_file(folder / "foreign", foreign_file()));
  EXPECT_EQ(import_safetensors(folder / "foreign", folder / "trained").error().code,
            Code::already_exists);
}

TEST(Safetensors, ADamagedCheckpointIsNotExportedAndNothingIsLeft) {
  const Folder folder;
  const auto path = save(folder / "trained", layouts()[0]);
  auto data = read_file(path / "rank-0000.bin").value();
  data[5] = static_cast<char>(data[5] ^ 1);
  ASSERT_TRUE(write_file(path / "rank-0000.bin", data));
  const auto done =
      export_safetensors(SavedCheckpoint::open(path).value(), folder / "model.safetensors");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::corrupt);
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"trained"}));
}

TEST(Safetensors, AHeaderThatLiesIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> lies{
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}})", "tensor a: bytes 0 to 9"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", "tensor a: bytes 4 to 12"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "tensor a: bytes 0 to 8"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", "tensor a: bytes -4 to 0"},
      {R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,8]}})", "type F4 are not known"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "data_offsets are two"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", "tensor a:"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "end at byte 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "tensor a begins at byte 4"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}})", "tensor a"},
      {R"([1])", "no JSON object"}};
  for (const auto& [words, refusal] : lies) {
    const auto parsed = parse_safetensors(words, 8);
    ASSERT_FALSE(parsed) << words;
    EXPECT_NE(parsed.error().message.find(refusal), std::string::npos) << parsed.error().message;
  }
}

TEST(Safetensors, AFileThatIsCutOffOrNoneIsRefused) {
  const Folder folder;
  const auto whole = foreign_file();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(write_file(folder / "cut", whole.substr(0, size)));
    const auto done = import_safetensors(folder / "cut", folder / "new");
    ASSERT_FALSE(done) << size << " bytes";
    EXPECT_EQ(done.error().code, Code::corrupt) << done.error().message;
  }
  EXPECT_FALSE(fs::exists(folder / "new"));
  EXPECT_FALSE(safetensors_header_size("PK\x03\x04zipzip"));
}

}  // namespace
}  // namespace lockstep::train
