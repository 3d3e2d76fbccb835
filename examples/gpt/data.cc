#include "data.h"

#include <algorithm>
#include <string>

#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::gpt {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFileLimit = 1u << 30;

Text text_of(std::string_view words) {
  auto* data = const_cast<char*>(words.data());
  const auto size = static_cast<std::int64_t>(words.size());
  return Text(at::from_blob(data, {size}, at::kByte).to(at::kLong));
}

Result<std::vector<fs::path>> text_files(const fs::path& path) {
  std::error_code unknown;  // then it is read as a file, whose error gives the reason
  if (!fs::is_directory(path, unknown)) return std::vector{path};
  auto files = TRY(list_folder(path));
  std::erase_if(files, [](const fs::path& file) { return file.extension() != ".txt"; });
  return files;
}

Result<std::string> joined(const std::vector<fs::path>& files) {
  std::string words;
  for (const auto& file : files) words += TRY(read_file(file, kFileLimit));
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
    train = TRY(read_file(path / "train.txt", kFileLimit));
    held_out = TRY(read_file(path / "heldout.txt", kFileLimit));
  } else {
    train = TRY(joined(TRY(text_files(path))));
    held_out = train.substr(train.size() - train.size() / 20);
    train.resize(train.size() - held_out.size());
  }
  const auto least = static_cast<std::size_t>(context) + 1;
  if (train.size() < least || held_out.size() < least)
    return Error{Code::invalid,
                 format("{} has {} bytes to train on and {} held out; a context of {} needs more",
                        path.string(), train.size(), held_out.size(), context)};
  return Corpus{text_of(train), text_of(held_out)};
}

}  // namespace lockstep::gpt
