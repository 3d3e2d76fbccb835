#include "train/checkpoint/read.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/files.h"
#include "base/format.h"
#include "base/log.h"
#include "train/checkpoint/hash.h"
#include "train/checkpoint/list.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = 1u << 20;

Result<void> verify(const fs::path& path, const SavedFile& file) {
  const auto fd = TRY(open_file(path, O_RDONLY | O_NOFOLLOW));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return os_error(format("reading {}", path.string()), errno);
  if (!S_ISREG(status.st_mode) || status.st_size != file.size)
    return Error{Code::corrupt,
                 format("{} has {} bytes, {} were written", file.name, status.st_size, file.size)};
  Hash hash;
  std::string piece(kPiece, '\0');
  while (true) {
    const auto size = ::read(fd.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return os_error(format("reading {}", path.string()), errno);
    if (size == 0) break;
    hash.add(piece.data(), static_cast<std::size_t>(size));
  }
  if (hash.hex() != file.xxh3)
    return Error{Code::corrupt, format("{} was altered: its checksum differs", file.name)};
  return {};
}

Result<void> read_at(int fd, char* data, std::size_t size, off_t offset) {
  while (size > 0) {
    const auto got = ::pread(fd, data, size, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error("reading tensors", errno);
    if (got == 0) return Error{Code::corrupt, "a file became shorter while it was read"};
    data += got;
    offset += got;
    size -= static_cast<std::size_t>(got);
  }
  return {};
}

Result<void> check_fits(const SavedTensor& saved, const NamedTensor& wanted) {
  if (saved.type != type_name(wanted.tensor.scalar_type()))
    return Error{Code::invalid, format("{} is {} in the checkpoint and {} in the model", saved.name,
                                       saved.type, type_name(wanted.tensor.scalar_type()))};
  if (saved.shape != wanted.tensor.sizes().vec())
    return Error{
        Code::invalid,
        lockstep::format("{} has shape [{}] in the checkpoint and [{}] in the model", saved.name,
                         fmt::join(saved.shape, ", "), fmt::join(wanted.tensor.sizes(), ", "))};
  return {};
}

}  // namespace

Result<SavedCheckpoint> SavedCheckpoint::open(const fs::path& path) {
  const auto words = TRY(read_file(path / kManifestName));
  auto manifest = parse_manifest(words);
  if (!manifest)
    return Error{Code::corrupt, format("{}: {}", kManifestName, manifest.error().message)};
  if (checkpoint_name(manifest->step) != path.filename().string())
    return Error{Code::corrupt, format("its manifest is of step {}", manifest->step)};
  for (const auto& file : manifest->files) TRY(verify(path / file.name, file));
  return SavedCheckpoint(path, std::move(*manifest));
}

Result<void> SavedCheckpoint::read(const std::vector<NamedTensor>& tensors) const {
  std::map<std::string_view, const SavedTensor*> saved;
  for (const auto& tensor : manifest_.tensors) saved[tensor.name] = &tensor;
  for (const auto& wanted : tensors) {
    const auto found = saved.find(wanted.name);
    if (found == saved.end())
      return Error{Code::invalid, format("{} has no {}: it is of another model or optimizer",
                                         path_.string(), wanted.name)};
    TRY(check_fits(*found->second, wanted));
  }

  const at::NoGradGuard no_grad;
  std::map<std::string, Fd> files;
  for (const auto& [name, tensor] : tensors) {
    const auto& from = *saved[name];
    auto& fd = files[from.file];
    if (!fd) fd = TRY(open_file(path_ / from.file, O_RDONLY | O_NOFOLLOW));
    auto content = at::empty(from.shape, tensor.options().device(at::kCPU));
    TRY(read_at(fd.get(), static_cast<char*>(content.mutable_data_ptr()), content.nbytes(),
                from.offset));
    tensor.copy_(content);
  }
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

}  // namespace lockstep
