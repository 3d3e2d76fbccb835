#include "platform/host/shared_folder.h"

#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"
#include "net/crypto.h"

namespace lockstep::host {
namespace {

constexpr int kMarkerBytes = 16;
constexpr std::size_t kMarkerMax = 64;

std::filesystem::path marker_file(const std::filesystem::path& folder) {
  return folder / ".lockstep";
}

}  // namespace

std::filesystem::path shared_checkpoints(const std::filesystem::path& folder) {
  return folder / "lockstep";
}

Result<std::string> make_shared_marker(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    return Error{Code::invalid, format("--shared: {} is no folder on this machine: mount it, or "
                                       "make it",
                                       folder.string())};
  auto marker = read_file(marker_file(folder), kMarkerMax);
  if (marker && !marker->empty()) return marker;
  if (!marker && marker.error().code != Code::not_found) return marker;
  std::string fresh = net::random_hex(kMarkerBytes);
  TRY(write_file(marker_file(folder), fresh, 0644));
  return fresh;
}

std::string shared_marker(const std::filesystem::path& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return "";
  return read_file(marker_file(folder), kMarkerMax).value_or("");
}

}  // namespace lockstep::host
