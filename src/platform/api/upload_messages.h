// Messages of `lockstep run --upload` and of agents that get its files; docs/design/upload.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/core/model/upload.h"
#include "text/record.h"

namespace lockstep::api {

// The content of all parts of a call or of an answer has this size at most.
inline constexpr std::int64_t kUploadCallMax = 2 << 20;
inline constexpr std::size_t kUploadPartsMax = 1000;

struct UploadRequest {
  model::UploadManifest manifest{};

  static constexpr auto fields() {
    return record<UploadRequest>(
        required(field("manifest", &UploadRequest::manifest, "what the folder has")));
  }
};

struct UploadAnswer {
  std::string id{};
  std::vector<std::string> missing{};

  static constexpr auto fields() {
    return record<UploadAnswer>(
        required(field("id", &UploadAnswer::id, "for the field upload of a run's spec")),
        required(field("missing", &UploadAnswer::missing,
                       "the SHA-256 of the files that the daemon does not have")));
  }
};

struct UploadPart {
  std::string sha256{};
  std::int64_t offset = 0;
  std::string bytes{};

  static constexpr auto fields() {
    return record<UploadPart>(
        required(field("sha256", &UploadPart::sha256, "of the whole file")),
        required(field("offset", &UploadPart::offset, "of the first byte in the file")),
        required(field("bytes", &UploadPart::bytes, "in base64")));
  }
};

// From a client, and in the answer to an agent.
struct UploadParts {
  std::vector<UploadPart> parts{};

  static constexpr auto fields() {
    return record<UploadParts>(
        required(field("parts", &UploadParts::parts, "1,000 at most, with 2 MiB in all")));
  }
};

struct UploadStored {
  int files = 0;

  static constexpr auto fields() {
    return record<UploadStored>(
        required(field("files", &UploadStored::files, "files that are complete by this call")));
  }
};

struct UploadPartName {
  std::string sha256{};
  std::int64_t offset = 0;

  static constexpr auto fields() {
    return record<UploadPartName>(
        required(field("sha256", &UploadPartName::sha256, "of the whole file")),
        field("offset", &UploadPartName::offset, "of the first byte that is wanted"));
  }
};

// The answer has the first of them, as many as fit, and one at least.
struct UploadPartsRequest {
  std::vector<UploadPartName> parts{};

  static constexpr auto fields() {
    return record<UploadPartsRequest>(
        required(field("parts", &UploadPartsRequest::parts, "wanted, 1,000 at most")));
  }
};

}  // namespace lockstep::api
