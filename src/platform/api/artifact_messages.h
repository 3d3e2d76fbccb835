// Messages about the artifacts of runs; see messages.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/record.h"

namespace lockstep::api {

// The most that an answer or a request has of a content.
inline constexpr std::int64_t kArtifactPartMax = 2 << 20;

struct ArtifactsQuery {
  std::string path{};
  int limit = 1000;

  static constexpr auto fields() {
    return record<ArtifactsQuery>(
        field("path", &ArtifactsQuery::path, "a folder, or one artifact; empty: the run's folder"),
        between(1, 10'000, field("limit", &ArtifactsQuery::limit, "at most so many")));
  }
};

struct ArtifactView {
  std::string path;
  bool is_folder = false;
  std::int64_t size = 0;
  std::string sha256{};

  static constexpr auto fields() {
    return record<ArtifactView>(
        field("path", &ArtifactView::path, "below the run"),
        field("is_folder", &ArtifactView::is_folder, "it has further ones"),
        field("size", &ArtifactView::size, "bytes; 0: a folder"),
        field("sha256", &ArtifactView::sha256, "of the content, hex; empty: a folder"));
  }
};

struct ArtifactList {
  std::vector<ArtifactView> artifacts;
  bool more = false;

  static constexpr auto fields() {
    return record<ArtifactList>(
        field("artifacts", &ArtifactList::artifacts, "directly in the folder, by path"),
        field("more", &ArtifactList::more, "there are more than the query asked for"));
  }
};

struct ArtifactPartQuery {
  std::string path;
  std::int64_t offset = 0;

  static constexpr auto fields() {
    return record<ArtifactPartQuery>(
        required(field("path", &ArtifactPartQuery::path, "of the artifact")),
        field("offset", &ArtifactPartQuery::offset, "where the part begins"));
  }
};

struct ArtifactPart {
  std::string bytes;
  std::int64_t size = 0;
  std::string sha256;

  static constexpr auto fields() {
    return record<ArtifactPart>(
        field("bytes", &ArtifactPart::bytes, "in base64, up to 2 MiB of them; empty: the end"),
        field("size", &ArtifactPart::size, "of the whole content, bytes"),
        field("sha256", &ArtifactPart::sha256, "of the whole content, hex"));
  }
};

struct AddArtifactPart {
  std::string upload;
  std::string path;
  std::int64_t offset = 0;
  std::string bytes{};
  bool last = false;

  static constexpr auto fields() {
    return record<AddArtifactPart>(
        required(field("upload", &AddArtifactPart::upload,
                       "an id of the client for this content: 16 to 64 hex digits")),
        required(field("path", &AddArtifactPart::path, "of the artifact")),
        field("offset", &AddArtifactPart::offset, "where the part begins"),
        field("bytes", &AddArtifactPart::bytes, "in base64, up to 2 MiB of them"),
        field("last", &AddArtifactPart::last, "the content ends here"));
  }
};

struct ArtifactPartStored {
  std::int64_t next = 0;
  std::optional<ArtifactView> artifact{};

  static constexpr auto fields() {
    return record<ArtifactPartStored>(
        field("next", &ArtifactPartStored::next, "where the next part begins"),
        field("artifact", &ArtifactPartStored::artifact, "once the content is complete"));
  }
};

}  // namespace lockstep::api
