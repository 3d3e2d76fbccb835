#include "train/checkpoint/format/tensor_file/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"
#include "train/checkpoint/format/manifest.h"

namespace lockstep::train {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie");

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::int64_t kHeaderLimit = 100'000'000;
constexpr std::size_t kHeaderAlignment = 64;

template <class... Args>
Error refused(fmt::format_string<Args...> pattern, Args&&... args) {
  return Error{Code::corrupt, fmt::format(pattern, std::forward<Args>(args)...)};
}

// One entry of the header, under the names of the format.
struct Entry {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> data_offsets;

  static constexpr auto fields() {
    return record<Entry>(required(field("dtype", &Entry::dtype, "of its elements, such as F32")),
                         required(field("shape", &Entry::shape, "in row-major order")),
                         required(field("data_offsets", &Entry::data_offsets, "begin and end")));
  }
};

Result<SafeTensor> read_entry(const std::string& name, const Json& json, std::int64_t bytes) {
  auto entry = from_json<Entry>(json);
  if (!entry) return refused("tensor {}: {}", name, entry.error().message);
  const auto type = from_safetensors_name(entry->dtype);
  if (!type)
    return refused("tensor {}: elements of type {} are not known here", name, entry->dtype);
  if (entry->data_offsets.size() != 2) return refused("tensor {}: data_offsets are two", name);
  const auto begin = entry->data_offsets[0], end = entry->data_offsets[1];
  const auto elements = elements_of(entry->shape);
  if (!elements || begin < 0 || end < begin || end > bytes ||
      end - begin != *elements * bytes_of(*type))
    return refused("tensor {}: bytes {} to {} of {} do not make {} of shape [{}]", name, begin, end,
                   bytes, entry->dtype, joined(entry->shape, ", "));
  return SafeTensor{name, *type, std::move(entry->shape), begin, end};
}

// The format requires every byte to belong to exactly one tensor.
Result<void> check_tiling(std::vector<SafeTensor> tensors, std::int64_t bytes) {
  std::ranges::sort(tensors, {}, [](const SafeTensor& t) { return std::pair(t.begin, t.end); });
  std::int64_t covered = 0;
  for (const auto& tensor : tensors) {
    if (tensor.begin != covered)
      return refused("tensor {} begins at byte {}, but those before it end at {}", tensor.name,
                     tensor.begin, covered);
    covered = tensor.end;
  }
  if (covered != bytes)
    return refused("its tensors end at byte {}, its data at {}", covered, bytes);
  return {};
}

Json json_of(const SafetensorsHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) json[std::string(kMetadata)] = to_json(header.metadata);
  for (const auto& tensor : header.tensors)
    json[tensor.name] = to_json(Entry{
        std::string(safetensors_name(tensor.type)), tensor.shape, {tensor.begin, tensor.end}});
  return json;
}

}  // namespace

std::string lay_out_safetensors(SafetensorsHeader& header) {
  std::ranges::sort(header.tensors, {}, [](const SafeTensor& tensor) {
    return std::pair(-bytes_of(tensor.type), tensor.name);
  });
  std::int64_t offset = 0;
  for (auto& tensor : header.tensors) {
    const auto elements = elements_of(tensor.shape);
    LS_CHECK(elements, "{} has a shape", tensor.name);
    tensor.begin = offset;
    tensor.end = offset += *elements * bytes_of(tensor.type);
  }
  auto json_text = dump_json(json_of(header));
  const auto whole = kSafetensorsPrefix + json_text.size();
  json_text.append((kHeaderAlignment - whole % kHeaderAlignment) % kHeaderAlignment, ' ');
  const std::uint64_t size = json_text.size();
  std::string prefix(sizeof size, '\0');
  std::memcpy(prefix.data(), &size, sizeof size);
  return prefix + json_text;
}

Result<std::int64_t> safetensors_header_size(std::string_view prefix) {
  std::uint64_t size = 0;
  if (prefix.size() != sizeof size) return refused("it is shorter than a safetensors file");
  std::memcpy(&size, prefix.data(), sizeof size);
  if (size > static_cast<std::uint64_t>(kHeaderLimit))
    return refused("it is no safetensors file: its header would have {}, the most is {}",
                   size < (std::uint64_t{1} << 62)
                       ? lockstep::text(Bytes(static_cast<std::int64_t>(size)))
                       : "more bytes than there are",
                   lockstep::text(Bytes(kHeaderLimit)));
  return static_cast<std::int64_t>(size);
}

Result<SafetensorsHeader> parse_safetensors(std::string_view json_text, std::int64_t bytes) {
  if (!json_text.starts_with('{')) return refused("its header is no JSON object");
  const auto json = TRY(parse_json(json_text, {.size = Bytes(kHeaderLimit), .depth = 8}));
  SafetensorsHeader header;
  for (const auto& [name, value] : json.get_ref<const Json::object_t&>()) {
    if (name == kMetadata)
      header.metadata = TRY((from_json<std::map<std::string, std::string>>(value)));
    else
      header.tensors.push_back(TRY(read_entry(name, value, bytes)));
  }
  TRY(check_tiling(header.tensors, bytes));
  return header;
}

}  // namespace lockstep::train
