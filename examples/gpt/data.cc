#include "data.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>

namespace gpt {
namespace {

namespace fs = std::filesystem;

using lockstep::Code;
using lockstep::Error;
using lockstep::Result;

Text text_of(std::string_view words) {
  auto* data = const_cast<char*>(words.data());
  const auto size = static_cast<std::int64_t>(words.size());
  return Text(at::from_blob(data, {size}, at::kByte).to(at::kLong));
}

Result<std::vector<fs::path>> text_files(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) return std::vector{path};
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(path, failed), end; entry != end; entry.increment(failed)) {
    if (entry->path().extension() == ".txt") files.push_back(entry->path());
    if (failed) break;
  }
  if (failed) return Error{Code::unavailable, path.string() + ": " + failed.message()};
  std::ranges::sort(files);
  return files;
}

Result<std::string> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(std::istreambuf_iterator<char>(file), {});
  if (!file) return Error{Code::unavailable, "cannot read " + path.string()};
  return content;
}

Result<std::string> joined(const std::vector<fs::path>& files) {
  std::string words;
  for (const auto& file : files) words += LOCKSTEP_TRY(read_file(file));
  return words;
}

}  // namespace

Batch Text::batch(const std::vector<std::int64_t>& starts, std::int64_t context) const {
  std::vector<at::Tensor> bytes;
  std::vector<at::Tensor> next;
  for (auto start : starts) {
    bytes.push_back(bytes_.narrow(0, start, context));
    next.push_back(bytes_.narrow(0, start + 1, context));
  }
  return {at::stack(bytes), at::stack(next)};
}

Result<Corpus> read_corpus(const fs::path& path, std::int64_t context) {
  std::string train;
  std::string held_out;
  std::error_code unknown;
  if (fs::exists(path / "train.txt", unknown) && fs::exists(path / "heldout.txt", unknown)) {
    train = LOCKSTEP_TRY(read_file(path / "train.txt"));
    held_out = LOCKSTEP_TRY(read_file(path / "heldout.txt"));
  } else {
    train = LOCKSTEP_TRY(joined(LOCKSTEP_TRY(text_files(path))));
    held_out = train.substr(train.size() - train.size() / 20);
    train.resize(train.size() - held_out.size());
  }
  const auto least = static_cast<std::size_t>(context) + 1;
  if (train.size() < least || held_out.size() < least)
    return Error{Code::invalid, path.string() + " has " + std::to_string(train.size()) +
                                    " bytes to train on and " + std::to_string(held_out.size()) +
                                    " held out; a context of " + std::to_string(context) +
                                    " needs more"};
  return Corpus{text_of(train), text_of(held_out)};
}

}  // namespace gpt
