#include "platform/host_service/checkpoint_files.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "base/os/files.h"
#include "net/base64.h"
#include "net/crypto.h"
#include "platform/host/node_files.h"
#include "train/checkpoint/format/list_checkpoints.h"
#include "train/checkpoint/format/manifest.h"

namespace lockstep::host_service {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kListedMax = 4;
constexpr std::size_t kManifestMax = 256 << 20;

bool is_file_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_of(std::string("/\0", 2)) == std::string::npos;
}

// Empty: there is no such file.
std::optional<std::int64_t> size_of_file(const fs::path& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return info.st_size;
}

Result<api::HostCheckpoint> describe(const train::ListedCheckpoint& listed) {
  const std::string content = TRY(read_file(listed.path / train::kManifestName, kManifestMax));
  const train::Manifest manifest = TRY(train::parse_manifest(content));
  api::HostCheckpoint found{.step = listed.step,
                            .epoch = manifest.epoch,
                            .manifest = net::sha256_hex(content),
                            .files = {{std::string(train::kManifestName), std::ssize(content)}}};
  for (const train::SavedFile& file : manifest.files) {
    found.files.push_back({file.name, file.size});
    if (size_of_file(listed.path / file.name) != file.size) found.missing.push_back(file.name);
  }
  return found;
}

Result<std::vector<api::HostCheckpoint>> list(const fs::path& folder) {
  std::vector<api::HostCheckpoint> found;
  for (const auto& listed : TRY(train::list_checkpoints(folder))) {
    if (found.size() == kListedMax) break;
    auto described = describe(listed);
    if (described)
      found.push_back(*std::move(described));
    else
      LS_LOG(warning, "{}: {}", listed.path.string(), described.error().message);
  }
  return found;
}

// A link or a device is no file of a checkpoint.
Result<std::string> read_part(const fs::path& folder, const api::CheckpointPartRequest& part) {
  if (part.step < 0 || part.offset < 0 || !is_file_name(part.name))
    return Error{Code::invalid, format("'{}' is no file of a checkpoint", part.name)};
  const fs::path path = folder / train::checkpoint_name(part.step) / part.name;
  const Fd file = TRY(open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return Error{Code::invalid, format("{} is no file", path.string())};
  std::vector<std::byte> bytes(static_cast<std::size_t>(
      std::clamp<std::int64_t>(info.st_size - part.offset, 0, api::kCheckpointPartMax)));
  const ssize_t size = ::pread(file.get(), bytes.data(), bytes.size(), part.offset);
  if (size < 0) return os_error("reading " + path.string(), errno);
  bytes.resize(static_cast<std::size_t>(size));
  return net::to_base64(bytes);
}

Result<fs::path> folder_of(const fs::path& home, const api::HostFileOrder& order) {
  if (!order.generation.empty()) TRY(model::check_generation(order.generation));
  return host::default_checkpoint_folder(home, order.generation,
                                         TRY(model::parse_run_id(order.run)));
}

Result<api::HostFileAnswer> answer(const fs::path& home, const api::HostFileOrder& order) {
  const fs::path folder = TRY(folder_of(home, order));
  const host::OwnersAccess as_owner(folder);
  api::HostFileAnswer done{.number = order.number};
  if (order.part)
    done.bytes = TRY(read_part(folder, *order.part));
  else
    done.checkpoints = TRY(list(folder));
  return done;
}

}  // namespace

api::HostFileAnswer carry_out(const fs::path& home, const api::HostFileOrder& order) {
  auto done = answer(home, order);
  return done ? *std::move(done)
              : api::HostFileAnswer{.number = order.number, .error = done.error().message};
}

}  // namespace lockstep::host_service
