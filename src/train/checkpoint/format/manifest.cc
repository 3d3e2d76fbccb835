#include "train/checkpoint/format/manifest.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"
#include "train/checkpoint/format/consistency.h"
#include "train/checkpoint/format/tensor_file/hash.h"

namespace lockstep::train {
namespace {

// {"xxh3":"32 digits",REST: the checksum is that of REST.
constexpr std::string_view kSumBegin = "{\"xxh3\":\"";
constexpr std::string_view kSumEnd = "\",";
constexpr std::size_t kSumDigits = 32;
constexpr JsonLimits kLimits{.size = 256_MiB, .depth = 8};

std::string sum_of(std::string_view content) {
  Hash hash;
  hash.add(content.data(), content.size());
  return hash.hex();
}

Error corrupt_manifest(std::string_view what) { return Error{Code::corrupt, std::string(what)}; }

// The text after the checksum, if the checksum is right.
Result<std::string_view> checked_rest(std::string_view content) {
  const auto head = kSumBegin.size() + kSumDigits + kSumEnd.size();
  if (content.size() < head || content.substr(head - kSumEnd.size(), kSumEnd.size()) != kSumEnd)
    return corrupt_manifest("it is cut off, or none of ours");
  const auto rest = content.substr(head);
  if (content.substr(kSumBegin.size(), kSumDigits) != sum_of(rest))
    return corrupt_manifest("it was altered: its checksum differs");
  return rest;
}

Error other_version(const Json& version) {
  return Error{Code::invalid,
               format("it has format {} and this Lockstep reads format {}: go on with the Lockstep "
                      "that wrote it, or give the training a new folder",
                      summarize_json(version), kCheckpointVersion)};
}

// Version 1 had no checksum of its own.
Result<Manifest> refuse_version_1(std::string_view content) {
  const auto json = parse_json(content, kLimits);
  if (json && json->is_object() && json->contains("version"))
    return other_version((*json)["version"]);
  return corrupt_manifest("it is cut off, or none of ours");
}

}  // namespace

std::int64_t SavedTensor::elements() const { return slices.empty() ? 0 : slices.back().end; }

const SavedTensor* Manifest::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &SavedTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

std::int64_t Manifest::bytes() const {
  std::int64_t sum = 0;
  for (const auto& file : files) sum += file.size;
  return sum;
}

std::string data_file_name(std::int64_t rank) { return format("rank-{:04}.bin", rank); }

std::optional<std::int64_t> elements_of(const std::vector<std::int64_t>& shape) {
  const bool empty = std::ranges::find(shape, 0) != shape.end();
  std::int64_t bytes = 8;
  for (const auto dimension : shape)
    if (dimension < 0 || (!empty && __builtin_mul_overflow(bytes, dimension, &bytes)))
      return std::nullopt;
  return empty ? 0 : bytes / 8;
}

std::string text(const Manifest& manifest) {
  const auto content = dump_json(to_json(manifest)).substr(1) + "\n";
  return format("{}{}{}{}", kSumBegin, sum_of(content), kSumEnd, content);
}

Result<Manifest> parse_manifest(std::string_view content) {
  if (!content.starts_with(kSumBegin)) return refuse_version_1(content);
  const auto rest = TRY(checked_rest(content));
  const auto json = TRY(parse_json("{" + std::string(rest), kLimits));
  if (!json.is_object() || !json.contains("version")) return corrupt_manifest("it says no version");
  if (json["version"] != kCheckpointVersion) return other_version(json["version"]);
  auto manifest = from_json<Manifest>(json);
  if (!manifest) return corrupt_manifest(manifest.error().message);
  TRY(check_consistency(*manifest));
  return manifest;
}

}  // namespace lockstep::train
