#include "train/checkpoint/manifest.h"

#include <array>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "base/format.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep {
namespace {

constexpr std::array<std::pair<at::ScalarType, std::string_view>, 10> kTypes{{
    {at::kFloat, "float32"},
    {at::kDouble, "float64"},
    {at::kHalf, "float16"},
    {at::kBFloat16, "bfloat16"},
    {at::kLong, "int64"},
    {at::kInt, "int32"},
    {at::kShort, "int16"},
    {at::kChar, "int8"},
    {at::kByte, "uint8"},
    {at::kBool, "bool"},
}};

std::optional<at::ScalarType> parse_type(std::string_view name) {
  for (const auto& [type, known] : kTypes)
    if (known == name) return type;
  return std::nullopt;
}

// Bytes of a tensor; nothing if a dimension is negative or the product overflows.
std::optional<std::int64_t> bytes_of(const SavedTensor& tensor, at::ScalarType type) {
  auto bytes = static_cast<std::int64_t>(c10::elementSize(type));
  for (auto dimension : tensor.shape)
    if (dimension < 0 || __builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  return bytes;
}

Result<void> check(const SavedTensor& tensor, const std::map<std::string, std::int64_t>& files) {
  const auto wrong = [&](std::string_view what) {
    return Error{Code::corrupt, format("tensor {}: {}", tensor.name, what)};
  };
  const auto type = parse_type(tensor.type);
  if (!type) return wrong(format("type {} is unknown", tensor.type));
  const auto bytes = bytes_of(tensor, *type);
  if (!bytes || *bytes != tensor.size)
    return wrong(lockstep::format("{} bytes do not make {} of shape {}", tensor.size, tensor.type,
                                  fmt::join(tensor.shape, "x")));
  const auto file = files.find(tensor.file);
  if (file == files.end()) return wrong(format("there is no file {}", tensor.file));
  if (tensor.offset < 0 || tensor.size > file->second || tensor.offset > file->second - tensor.size)
    return wrong(format("bytes {} to {} lie outside {}, which has {}", tensor.offset,
                        tensor.offset + tensor.size, tensor.file, file->second));
  return {};
}

// A name of ours, and so never a way out of the folder.
bool is_file_name(std::string_view name) {
  return name.size() == 13 && name.starts_with("rank-") && name.ends_with(".bin") &&
         name.substr(5, 4).find_first_not_of("0123456789") == std::string_view::npos;
}

Result<void> check(const Manifest& manifest) {
  if (manifest.version != 1)
    return Error{Code::corrupt, format("format {} is not known here", manifest.version)};
  if (manifest.step < 0 || manifest.optimizer_steps < 0 || manifest.sampler_cursor < 0)
    return Error{Code::corrupt, "a count is negative"};
  std::map<std::string, std::int64_t> files;
  for (const auto& file : manifest.files) {
    if (!is_file_name(file.name) || file.size < 0)
      return Error{Code::corrupt,
                   format("file {} of {} bytes is none of ours", file.name, file.size)};
    if (!files.emplace(file.name, file.size).second)
      return Error{Code::corrupt, format("file {} is listed twice", file.name)};
  }
  std::set<std::string_view> names;
  for (const auto& tensor : manifest.tensors) {
    TRY(check(tensor, files));
    if (!names.insert(tensor.name).second)
      return Error{Code::corrupt, format("tensor {} is listed twice", tensor.name)};
  }
  return {};
}

}  // namespace

std::string text(const Manifest& manifest) {
  return dump_json(to_json(manifest), Indent::two) + "\n";
}

Result<Manifest> parse_manifest(std::string_view words) {
  auto manifest = TRY(from_json<Manifest>(TRY(parse_json(words))));
  TRY(check(manifest));
  return manifest;
}

std::string_view type_name(at::ScalarType type) {
  for (const auto& [known, name] : kTypes)
    if (known == type) return name;
  return {};
}

}  // namespace lockstep
