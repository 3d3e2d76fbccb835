// The manifest of a checkpoint: everything about it but the tensors' bytes. It is written last, so
// a folder without it was never finished.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/result.h"
#include "text/record.h"

namespace lockstep {

struct SavedFile {
  std::string name;
  std::int64_t size = 0;
  std::string xxh3;

  static constexpr auto fields() {
    return record<SavedFile>(required(field("name", &SavedFile::name, "within the folder")),
                             required(field("size", &SavedFile::size, "bytes")),
                             required(field("xxh3", &SavedFile::xxh3, "XXH3-128, 32 hex digits")));
  }
};

struct SavedTensor {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::string file;
  std::int64_t offset = 0;
  std::int64_t size = 0;

  static constexpr auto fields() {
    return record<SavedTensor>(
        required(field("name", &SavedTensor::name, "kind and parameter, parameter/head.weight")),
        required(field("type", &SavedTensor::type, "float32, bfloat16, ...")),
        required(field("shape", &SavedTensor::shape, "global; elements in row-major order")),
        required(field("file", &SavedTensor::file, "the file that holds it")),
        required(field("offset", &SavedTensor::offset, "of its first byte in the file")),
        required(field("size", &SavedTensor::size, "bytes")));
  }
};

struct Manifest {
  int version = 1;
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string optimizer;
  std::int64_t optimizer_steps = 0;
  std::uint64_t sampler_seed = 0;
  std::int64_t sampler_cursor = 0;
  std::map<std::string, std::string> notes;
  std::vector<SavedFile> files;
  std::vector<SavedTensor> tensors;

  static constexpr auto fields() {
    return record<Manifest>(
        required(field("version", &Manifest::version, "of this format: 1")),
        required(field("step", &Manifest::step, "steps trained")),
        required(field("epoch", &Manifest::epoch, "the attempt that wrote it")),
        required(field("optimizer", &Manifest::optimizer, "adamw or sgd")),
        required(field("optimizer_steps", &Manifest::optimizer_steps, "steps it has taken")),
        required(field("sampler_seed", &Manifest::sampler_seed, "order of the data")),
        required(field("sampler_cursor", &Manifest::sampler_cursor, "samples given out")),
        field("notes", &Manifest::notes, "what the program wants to find again"),
        required(field("files", &Manifest::files, "every other file of the folder")),
        required(field("tensors", &Manifest::tensors, "where each tensor is")));
  }
};

constexpr std::string_view kManifestName = "manifest.json";

std::string text(const Manifest& manifest);
// Refuses whatever does not fit together: names, types, shapes, intervals beyond a file's size.
Result<Manifest> parse_manifest(std::string_view words);

// "float32" for at::kFloat; empty for types that checkpoints do not hold.
std::string_view type_name(at::ScalarType type);

}  // namespace lockstep
