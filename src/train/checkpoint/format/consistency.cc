#include "train/checkpoint/format/consistency.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.h"

namespace lockstep::train {
namespace {

template <class... Args>
Error wrong(fmt::format_string<Args...> pattern, Args&&... args) {
  return Error{Code::corrupt, fmt::format(pattern, std::forward<Args>(args)...)};
}

// A name in our format, which therefore never refers outside of the folder.
bool is_data_file_name(std::string_view name) {
  constexpr std::string_view begin = "rank-", end = ".bin";
  if (!name.starts_with(begin) || !name.ends_with(end)) return false;
  const auto digits = name.substr(begin.size(), name.size() - begin.size() - end.size());
  return digits.size() >= 4 && digits.size() <= 10 &&
         digits.find_first_not_of("0123456789") == std::string_view::npos;
}

Result<void> check_file(const SavedFile& file) {
  if (!is_data_file_name(file.name) || file.size < 0)
    return wrong("file {} of {} bytes is none of ours", file.name, file.size);
  const auto blocks = file.size / kBlockBytes + (file.size % kBlockBytes > 0 ? 1 : 0);
  if (static_cast<std::int64_t>(file.checksums.size()) != blocks)
    return wrong("file {} has {} checksums for {} blocks", file.name, file.checksums.size(),
                 blocks);
  return {};
}

Result<void> check_files(const Manifest& manifest) {
  std::set<std::string_view> names;
  std::int64_t sum = 0;
  for (const auto& file : manifest.files) {
    TRY(check_file(file));
    if (!names.insert(file.name).second) return wrong("file {} is listed twice", file.name);
    if (__builtin_add_overflow(sum, file.size, &sum)) return wrong("its files are absurdly large");
  }
  return {};
}

// The bytes that a slice occupies, for finding two that overlap.
struct Extent {
  std::int64_t file;
  std::int64_t begin;
  std::int64_t end;
  const SavedTensor* tensor;
};

Result<void> check_slice(const SavedTensor& tensor, const SavedSlice& slice,
                         const Manifest& manifest, std::vector<Extent>& extents) {
  if (slice.file < 0 || slice.file >= static_cast<std::int64_t>(manifest.files.size()))
    return wrong("tensor {}: there is no file {}", tensor.name, slice.file);
  const auto& file = manifest.files[static_cast<std::size_t>(slice.file)];
  const auto bytes = (slice.end - slice.begin) * bytes_of(tensor.type);
  if (slice.offset < 0 || bytes > file.size || slice.offset > file.size - bytes)
    return wrong("tensor {}: {} bytes from {} on lie outside {}, which has {}", tensor.name, bytes,
                 slice.offset, file.name, file.size);
  extents.push_back({slice.file, slice.offset, slice.offset + bytes, &tensor});
  return {};
}

Result<void> check_tensor(const SavedTensor& tensor, const Manifest& manifest,
                          std::vector<Extent>& extents) {
  const auto elements = elements_of(tensor.shape);
  if (!elements)
    return wrong("tensor {}: there is no shape [{}]", tensor.name, joined(tensor.shape, ", "));
  std::int64_t covered = 0;
  for (const auto& slice : tensor.slices) {
    if (slice.begin != covered || slice.end <= slice.begin || slice.end > *elements)
      return wrong("tensor {}: behind element {} comes a slice from {} to {}, of {} elements",
                   tensor.name, covered, slice.begin, slice.end, *elements);
    covered = slice.end;
    TRY(check_slice(tensor, slice, manifest, extents));
  }
  if (covered != *elements)
    return wrong("tensor {}: elements {} to {} are missing", tensor.name, covered, *elements);
  return {};
}

Result<void> check_apart(std::vector<Extent>& extents, const Manifest& manifest) {
  std::ranges::sort(extents, {}, [](const Extent& e) { return std::pair(e.file, e.begin); });
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (const auto &a = extents[i - 1], &b = extents[i]; a.file == b.file && b.begin < a.end)
      return wrong("tensors {} and {} share bytes of {}", a.tensor->name, b.tensor->name,
                   manifest.files[static_cast<std::size_t>(a.file)].name);
  return {};
}

}  // namespace

Result<void> check_consistency(const Manifest& manifest) {
  if (manifest.step < 0 || manifest.epoch < 0 || manifest.ranks < 1 ||
      manifest.optimizer_steps < 0 || manifest.sampler_cursor < 0)
    return wrong("a count is negative");
  TRY(check_files(manifest));
  std::set<std::string_view> names;
  std::vector<Extent> extents;
  for (const auto& tensor : manifest.tensors) {
    if (!names.insert(tensor.name).second) return wrong("tensor {} is listed twice", tensor.name);
    TRY(check_tensor(tensor, manifest, extents));
  }
  return check_apart(extents, manifest);
}

}  // namespace lockstep::train
