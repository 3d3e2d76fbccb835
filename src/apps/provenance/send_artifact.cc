#include "apps/provenance/send_artifact.h"

#include <algorithm>
#include <vector>

#include "base/format.h"
#include "net/base64.h"
#include "net/crypto.h"

namespace lockstep::cli {

Result<api::ArtifactView> send_artifact(client::Client& client, const model::RunId& run,
                                        const std::string& path, const ReadPart& read) {
  const std::string upload = net::random_hex(16);
  std::vector<std::byte> bytes(static_cast<std::size_t>(api::kArtifactPartMax));
  for (std::int64_t offset = 0;;) {
    const auto part = std::span(bytes).first(TRY(read(offset, bytes)));
    const auto stored =
        TRY(client.call(api::kAddArtifactPart, {.path = run,
                                                .request = {.upload = upload,
                                                            .path = path,
                                                            .offset = offset,
                                                            .bytes = net::to_base64(part),
                                                            .last = part.size() < bytes.size()}}));
    if (stored.artifact) return *stored.artifact;
    if (stored.next != offset + std::ssize(part))
      return Error{Code::unavailable, format("the daemon has another part of {}: try again", path)};
    offset = stored.next;
  }
}

Result<api::ArtifactView> send_artifact(client::Client& client, const model::RunId& run,
                                        const std::string& path, std::string_view content) {
  return send_artifact(
      client, run, path, [content](std::int64_t offset, std::span<std::byte> part) {
        const auto rest = content.substr(static_cast<std::size_t>(offset));
        const std::size_t size = std::min(rest.size(), part.size());
        std::ranges::copy(std::as_bytes(std::span(rest.data(), size)), part.begin());
        return Result<std::size_t>(size);
      });
}

}  // namespace lockstep::cli
