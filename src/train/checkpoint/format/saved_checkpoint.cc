#include "train/checkpoint/format/saved_checkpoint.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "base/os/files.h"
#include "train/checkpoint/format/list_checkpoints.h"
#include "train/checkpoint/format/tensor_file/data_file.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kManifestLimit = 256u << 20;

// The part of the requested elements that is in one slice.
struct Piece {
  std::int64_t file;
  std::int64_t offset;
  std::span<char> into;
};

void add_pieces(const TensorRead& wanted, std::vector<Piece>& pieces) {
  const auto item = bytes_of(wanted.tensor->type);
  LS_CHECK(static_cast<std::int64_t>(wanted.into.size()) == (wanted.end - wanted.begin) * item);
  // The first slice that ends after the beginning; slices are in order.
  auto slice = std::ranges::upper_bound(wanted.tensor->slices, wanted.begin, {}, &SavedSlice::end);
  for (; slice != wanted.tensor->slices.end() && slice->begin < wanted.end; ++slice) {
    const auto begin = std::max(wanted.begin, slice->begin);
    const auto end = std::min(wanted.end, slice->end);
    pieces.push_back({slice->file, slice->offset + (begin - slice->begin) * item,
                      wanted.into.subspan(static_cast<std::size_t>((begin - wanted.begin) * item),
                                          static_cast<std::size_t>((end - begin) * item))});
  }
}

// Calls `count` after each block.
Result<void> read_all(const fs::path& folder, const SavedFile& file,
                      const ProgressCallback& count) {
  std::vector<char> block(static_cast<std::size_t>(kBlockBytes));
  auto reader = TRY(DataReader::open(folder / file.name, file));
  for (std::int64_t at = 0; at < file.size; at += kBlockBytes) {
    const auto size = static_cast<std::size_t>(std::min(kBlockBytes, file.size - at));
    TRY(reader.read(at, std::span(block).first(size)));
    count(Bytes(static_cast<std::int64_t>(size)));
  }
  return {};
}

}  // namespace

Result<SavedCheckpoint> SavedCheckpoint::open(const fs::path& path) {
  const auto content = TRY(read_file(path / kManifestName, kManifestLimit));
  auto manifest = parse_manifest(content);
  if (!manifest) return std::move(manifest).error().with_context(kManifestName);
  if (checkpoint_name(manifest->step) != path.filename().string())
    return Error{Code::corrupt, format("its manifest is of step {}", manifest->step)};
  for (const auto& file : manifest->files) TRY(DataReader::open(path / file.name, file));
  return SavedCheckpoint(path, std::move(*manifest));
}

Result<void> SavedCheckpoint::read(const std::vector<TensorRead>& wanted) const {
  std::vector<Piece> pieces;
  for (const auto& one : wanted) add_pieces(one, pieces);
  std::ranges::sort(pieces, {}, [](const Piece& p) { return std::pair(p.file, p.offset); });
  std::optional<DataReader> reader;
  std::int64_t opened = -1;
  for (const auto& piece : pieces) {
    if (opened != piece.file) {
      const auto& file = manifest_.files[static_cast<std::size_t>(piece.file)];
      reader = TRY(DataReader::open(path_ / file.name, file));
      opened = piece.file;
    }
    TRY(reader->read(piece.offset, piece.into));
  }
  return {};
}

Result<void> SavedCheckpoint::verify_file(const std::string& name) const {
  for (const auto& file : manifest_.files)
    if (file.name == name) return read_all(path_, file, [](Bytes) {});
  return {};
}

Result<void> SavedCheckpoint::verify(const ProgressCallback& watch) const {
  Bytes done;
  for (const auto& file : manifest_.files)
    TRY(read_all(path_, file, [&](Bytes block) {
      done += block;
      if (watch) watch(done);
    }));
  return {};
}

Result<SavedCheckpoint> newest_checkpoint(const fs::path& folder) {
  for (const auto& listed : TRY(list_checkpoints(folder))) {
    auto checkpoint = SavedCheckpoint::open(listed.path);
    if (checkpoint) return checkpoint;
    LS_LOG(warning, "skipping checkpoint {}: {}", listed.path.string(), checkpoint.error().message);
  }
  return Error{Code::not_found, format("{} holds no whole checkpoint", folder.string())};
}

}  // namespace lockstep::train
