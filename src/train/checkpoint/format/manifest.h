// The manifest of a checkpoint: everything about it but the tensors' bytes. It is written last, so
// a folder without it was never finished. It is one line of JSON, which begins with the checksum of
// the rest.
//
// A tensor is the sequence of its slices: elements of the flattened tensor in row-major order, each
// slice somewhere in one of the files. The manifest does not record which rank held a slice, or the
// policy: a reader takes what it needs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/record.h"
#include "train/checkpoint/format/tensor_file/data_type_names.h"

namespace lockstep::train {

constexpr int kCheckpointVersion = 2;
constexpr std::string_view kManifestName = "manifest.json";
// Files have a checksum for each block of this size, so that a reader of a part reads and checks
// that part only.
constexpr std::int64_t kBlockBytes = 4 << 20;
// Alignment of a slice's first byte in its file, suitable for vector instructions and DMA engines.
constexpr std::int64_t kSliceAlignment = 64;
// `optimizer` of a checkpoint that holds a model only.
constexpr std::string_view kNoOptimizer = "none";

struct SavedFile {
  std::string name;
  std::int64_t size = 0;
  std::vector<std::string> checksums;

  static constexpr auto fields() {
    return record<SavedFile>(
        required(field("name", &SavedFile::name, "within the folder")),
        required(field("size", &SavedFile::size, "bytes")),
        required(field("sums", &SavedFile::checksums, "XXH3-128 of each block, 32 hex digits")));
  }
};

struct SavedSlice {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t file = 0;
  std::int64_t offset = 0;

  static constexpr auto fields() {
    return record<SavedSlice>(
        required(field("begin", &SavedSlice::begin, "first element of the flattened tensor")),
        required(field("end", &SavedSlice::end, "the element behind the last")),
        required(field("file", &SavedSlice::file, "index in the list of files")),
        required(field("offset", &SavedSlice::offset, "of its first byte in the file")));
  }
};

struct SavedTensor {
  std::string name;
  DataType type = DataType::float32;
  std::vector<std::int64_t> shape;
  std::vector<SavedSlice> slices;

  // For a tensor that parse_manifest has accepted.
  std::int64_t elements() const;
  std::int64_t bytes() const { return elements() * bytes_of(type); }

  static constexpr auto fields() {
    return record<SavedTensor>(
        required(field("name", &SavedTensor::name, "kind and parameter, parameter/head.weight")),
        required(field("type", &SavedTensor::type, "float32, bfloat16, ...")),
        required(field("shape", &SavedTensor::shape, "global; elements in row-major order")),
        required(field("slices", &SavedTensor::slices, "in order, without holes or overlaps")));
  }
};

struct Manifest {
  int version = kCheckpointVersion;
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::int64_t ranks = 1;
  std::string optimizer;
  std::int64_t optimizer_steps = 0;
  std::uint64_t sampler_seed = 0;
  std::int64_t sampler_cursor = 0;
  std::map<std::string, std::string> notes;
  std::vector<SavedFile> files;
  std::vector<SavedTensor> tensors;

  // Null if there is no tensor of this name.
  const SavedTensor* find(std::string_view name) const;
  std::int64_t bytes() const;  // of all files

  static constexpr auto fields() {
    return record<Manifest>(
        required(field("version", &Manifest::version, "of this format")),
        required(field("step", &Manifest::step, "steps trained")),
        required(field("epoch", &Manifest::epoch, "the attempt that wrote it")),
        required(field("ranks", &Manifest::ranks, "that trained")),
        required(field("optimizer", &Manifest::optimizer, "adamw or sgd; none: a model only")),
        required(field("optimizer_steps", &Manifest::optimizer_steps, "steps it has taken")),
        required(field("sampler_seed", &Manifest::sampler_seed, "order of the data")),
        required(field("sampler_cursor", &Manifest::sampler_cursor, "samples given out")),
        field("notes", &Manifest::notes, "what the program wants to find again"),
        required(field("files", &Manifest::files, "every other file of the folder")),
        required(field("tensors", &Manifest::tensors, "where each tensor is")));
  }
};

// "rank-0003.bin".
std::string data_file_name(std::int64_t rank);

// The elements of a tensor of this shape; nothing if a dimension is negative, or if the size in
// bytes, at 8 bytes each, overflows.
std::optional<std::int64_t> elements_of(const std::vector<std::int64_t>& shape);

std::string text(const Manifest& manifest);
// corrupt: altered, torn, or inconsistent. invalid: of another version.
Result<Manifest> parse_manifest(std::string_view content);

}  // namespace lockstep::train
