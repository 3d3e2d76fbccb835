#include "platform/engine/k8s/client/cluster_access.h"

#include "base/os/files.h"

namespace lockstep::engine {
namespace {

constexpr std::size_t kCredentialFileMax = 1 << 20;

}  // namespace

Result<std::string> TextOrFile::read() const {
  return file.empty() ? Result<std::string>(text) : read_file(file, kCredentialFileMax);
}

}  // namespace lockstep::engine
