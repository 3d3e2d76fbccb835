// For tests: a small state, the ways in which ranks may hold it, and checkpoints of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "train/checkpoint/format/saved_checkpoint.h"
#include "train/checkpoint/format/tensor_file/data_file.h"
#include "train/checkpoint/format/writer/fence.h"
#include "train/checkpoint/format/writer/unfinished.h"
#include "train/checkpoint/format/writer/write_assignment.h"

namespace lockstep::train::layouts_for_test {

// In memory, where syncing costs nothing.
class Folder : public TemporaryFolder {
 public:
  Folder() : TemporaryFolder("/dev/shm") {}
};

inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Sizes that nothing divides, a scalar, and a tensor without elements.
inline std::vector<HeldPart> whole_state() {
  const auto tensor = [](const char* name, DataType type, std::vector<std::int64_t> shape) {
    const auto elements = *elements_of(shape);
    return HeldPart{name, type, std::move(shape), 0, elements};
  };
  std::vector<HeldPart> state{tensor("parameter/embedding", DataType::float32, {13, 7}),
                              tensor("parameter/bias", DataType::bfloat16, {3}),
                              tensor("parameter/none", DataType::float32, {0, 4}),
                              tensor("exp_avg/embedding", DataType::float32, {13, 7}),
                              tensor("exp_avg/bias", DataType::bfloat16, {3}),
                              tensor("buffer/count", DataType::int64, {})};
  state.back().copies_equal = false;
  return state;
}

// The contents of a tensor: bytes that depend on the name and the index.
inline std::string content_of(const std::string& name, std::int64_t begin, std::int64_t end) {
  std::string bytes;
  for (auto i = begin; i < end; ++i)
    bytes += static_cast<char>(i * 31 + static_cast<std::int64_t>(name.size()) * 7);
  return bytes;
}
inline std::string content_of(const HeldPart& held) {
  const auto item = bytes_of(held.type);
  return content_of(held.name, held.begin * item, held.end * item);
}

struct RankLayout {
  std::string name;
  int ranks = 1;
  // The part of a tensor that a rank holds; the tensor is given whole.
  std::function<HeldPart(HeldPart whole, int rank)> held;
};

// Part `index` of `parts`, the last ones smaller or empty.
inline HeldPart shard_of(HeldPart whole, int index, int parts) {
  const auto size = (whole.end + parts - 1) / parts;
  const auto end = whole.end;
  whole.begin = std::min(end, index * size);
  whole.end = std::min(end, whole.begin + size);
  return whole;
}

inline std::vector<RankLayout> layouts() {
  const auto is_state = [](const HeldPart& held) { return held.name.starts_with("exp_avg/"); };
  return {{"single", 1, [](HeldPart whole, int) { return whole; }},
          {"ddp_4", 4, [](HeldPart whole, int) { return whole; }},
          {"zero1_4", 4,
           [=](HeldPart whole, int rank) {
             return is_state(whole) ? shard_of(whole, rank, 4) : whole;
           }},
          {"zero3_3", 3, [](HeldPart whole, int rank) { return shard_of(whole, rank, 3); }},
          {"zero3_8", 8, [](HeldPart whole, int rank) { return shard_of(whole, rank, 8); }},
          {"mics_2_of_4", 4, [](HeldPart whole, int rank) { return shard_of(whole, rank % 2, 2); }},
          {"mics_3_of_6_state_over_all", 6, [=](HeldPart whole, int rank) {
             return is_state(whole) ? shard_of(whole, rank, 6) : shard_of(whole, rank % 3, 3);
           }}};
}

inline std::vector<HeldPart> held_by(const RankLayout& layout, int rank) {
  std::vector<HeldPart> held;
  for (const auto& whole : whole_state()) held.push_back(layout.held(whole, rank));
  return held;
}

inline WriteAssignment division_of(const RankLayout& layout) {
  std::vector<SharedParts> holders;
  for (int rank = 0; rank < layout.ranks; ++rank)
    holders.push_back({{rank}, held_by(layout, rank)});
  return assign_writes(holders, layout.ranks).value();
}

inline Result<SavedFile> write_share(const std::filesystem::path& folder,
                                     const WriteAssignment& assignment, int rank) {
  auto file = TRY(DataWriter::create(folder / data_file_name(rank)));
  for (const auto& tensor : assignment.tensors)
    for (const auto& slice : tensor.slices) {
      if (slice.file != rank) continue;
      const auto item = bytes_of(tensor.type);
      TRY(file.align());
      EXPECT_EQ(file.size(), slice.offset);
      TRY(file.append(content_of(tensor.name, slice.begin * item, slice.end * item)));
    }
  return std::move(file).finish();
}

// As an attempt of the run demo/1.
inline FenceOptions as_attempt(std::int64_t attempt) {
  return {.writer = {.run = "demo/1", .attempt = attempt}};
}

// Writes a checkpoint of the state as the ranks of this layout would.
inline Result<std::filesystem::path> save(const std::filesystem::path& folder, const Fence& fence,
                                          const RankLayout& layout, std::int64_t step) {
  auto assignment = division_of(layout);
  Manifest manifest;
  manifest.step = step;
  manifest.epoch = fence.attempt();
  manifest.ranks = layout.ranks;
  manifest.optimizer = "adamw";
  manifest.notes = {{"layers", "4"}};
  const auto unfinished = unfinished_path(folder, step, fence.claim_id());
  TRY(make_folders(unfinished));
  for (int rank = 0; rank < layout.ranks; ++rank)
    manifest.files.push_back(TRY(write_share(unfinished, assignment, rank)));
  manifest.tensors = std::move(assignment.tensors);
  return commit_checkpoint(folder, fence, manifest);
}

inline std::filesystem::path save(const std::filesystem::path& folder, const RankLayout& layout,
                                  std::int64_t step = 3) {
  EXPECT_TRUE(make_folders(folder));
  return save(folder, Fence::claim(folder, {}).value(), layout, step).value();
}

// Reads the parts that a rank of a layout holds; the contents by tensor.
inline Result<std::vector<std::string>> read_as(const SavedCheckpoint& checkpoint,
                                                const std::vector<HeldPart>& held) {
  std::vector<std::string> contents;
  for (const auto& one : held)
    contents.emplace_back(static_cast<std::size_t>((one.end - one.begin) * bytes_of(one.type)),
                          '?');
  std::vector<TensorRead> wanted;
  for (std::size_t i = 0; i < held.size(); ++i) {
    const auto* tensor = checkpoint.manifest().find(held[i].name);
    if (!tensor) return Error{Code::not_found, held[i].name};
    wanted.push_back({tensor, held[i].begin, held[i].end, contents[i]});
  }
  TRY(checkpoint.read(wanted));
  return contents;
}

inline void expect_state(const SavedCheckpoint& checkpoint, const RankLayout& layout, int rank) {
  const auto held = held_by(layout, rank);
  const auto contents = read_as(checkpoint, held);
  ASSERT_TRUE(contents) << contents.error().message;
  for (std::size_t i = 0; i < held.size(); ++i)
    EXPECT_EQ((*contents)[i], content_of(held[i])) << held[i].name << " of rank " << rank;
}

}  // namespace lockstep::train::layouts_for_test
