#include "apps/daemon/remembered_map.h"

#include "base/log.h"
#include "base/os/files.h"
#include "map/map_file.h"

namespace lockstep::cli {

Result<map::ClusterMap> remembered_map(Result<map::ClusterMap> found,
                                       const std::filesystem::path& file, std::string_view name) {
  if (found) {
    TRY(write_file(file, map::dump_map(*found)));
    return found;
  }
  const auto last = read_file(file);
  if (!last || found.error().code != Code::unavailable) return found;
  LS_LOG(warning, "the map is that of the last start, because {} does not answer: {}", name,
         found.error().message);
  return map::parse_map(*last, file.string());
}

}  // namespace lockstep::cli
