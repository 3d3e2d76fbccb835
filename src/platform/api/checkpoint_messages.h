// Messages by which agents get a checkpoint from the hosts that have its files;
// docs/design/host-checkpoints.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/record.h"

namespace lockstep::api {

// The most that an answer has of a file.
inline constexpr std::int64_t kCheckpointPartMax = 2 << 20;

struct CheckpointFile {
  std::string name{};
  std::int64_t size = 0;

  bool operator==(const CheckpointFile&) const = default;

  static constexpr auto fields() {
    return record<CheckpointFile>(
        required(field("name", &CheckpointFile::name, "in the folder of the checkpoint")),
        required(field("size", &CheckpointFile::size, "bytes")));
  }
};

// A part of a file: from this byte on.
struct CheckpointPartRequest {
  std::int64_t step = 0;
  std::string name{};
  std::int64_t offset = 0;
  std::optional<std::string> damaged{};

  bool operator==(const CheckpointPartRequest&) const = default;

  static constexpr auto fields() {
    return record<CheckpointPartRequest>(
        required(field("step", &CheckpointPartRequest::step, "of the checkpoint")),
        required(field("name", &CheckpointPartRequest::name, "of the file")),
        required(
            field("offset", &CheckpointPartRequest::offset, "of the first byte that is wanted")),
        field("damaged", &CheckpointPartRequest::damaged,
              "a host whose copy of the file does not have its checksum; null: none is known"));
  }
};

struct CheckpointPart {
  std::string bytes{};
  std::string host{};

  static constexpr auto fields() {
    return record<CheckpointPart>(
        required(field("bytes", &CheckpointPart::bytes, "in base64, up to 2 MiB of them")),
        field("host", &CheckpointPart::host, "whose copy of the file this is"));
  }
};

// From which checkpoint an attempt goes on.
struct NodeCheckpoint {
  std::optional<std::int64_t> step{};
  std::string manifest{};
  std::vector<CheckpointFile> files{};
  std::string note{};

  bool operator==(const NodeCheckpoint&) const = default;

  static constexpr auto fields() {
    return record<NodeCheckpoint>(
        field("step", &NodeCheckpoint::step, "of the checkpoint; null: there is none"),
        field("manifest", &NodeCheckpoint::manifest, "SHA-256 of its manifest.json"),
        field("files", &NodeCheckpoint::files, "all that it has, manifest.json among them"),
        field("note", &NodeCheckpoint::note, "why it is not a newer one; empty: it is the newest"));
  }
};

// An order to a host service: to list the checkpoints of a run, or to send a part of a file.
struct HostFileOrder {
  std::int64_t number = 0;
  std::string generation{};
  std::string run{};
  std::optional<CheckpointPartRequest> part{};

  static constexpr auto fields() {
    return record<HostFileOrder>(
        required(field("number", &HostFileOrder::number,
                       "of this order; it only rises, also over restarts")),
        required(field("generation", &HostFileOrder::generation, "of the store that made the run")),
        required(field("run", &HostFileOrder::run, "demo/42")),
        field("part", &HostFileOrder::part, "to be sent; null: the list of its checkpoints"));
  }
};

// A checkpoint of which a host has at least the manifest.
struct HostCheckpoint {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string manifest{};
  std::vector<CheckpointFile> files{};
  std::vector<std::string> missing{};

  static constexpr auto fields() {
    return record<HostCheckpoint>(
        required(field("step", &HostCheckpoint::step, "of the checkpoint")),
        required(field("epoch", &HostCheckpoint::epoch, "the attempt that wrote it")),
        required(field("manifest", &HostCheckpoint::manifest, "SHA-256 of its manifest.json")),
        required(field("files", &HostCheckpoint::files, "all that it has, with manifest.json")),
        field("missing", &HostCheckpoint::missing, "names of those that this host does not have"));
  }
};

struct HostFileAnswer {
  std::int64_t number = 0;
  std::string error{};
  std::vector<HostCheckpoint> checkpoints{};
  std::string bytes{};

  static constexpr auto fields() {
    return record<HostFileAnswer>(
        required(field("number", &HostFileAnswer::number, "of the order")),
        field("error", &HostFileAnswer::error, "why it was not carried out; empty: it was"),
        field("checkpoints", &HostFileAnswer::checkpoints, "the newest of the run"),
        field("bytes", &HostFileAnswer::bytes, "of the file, in base64"));
  }
};

struct HostFileAnswers {
  std::vector<HostFileAnswer> answers{};

  static constexpr auto fields() {
    return record<HostFileAnswers>(
        required(field("answers", &HostFileAnswers::answers, "one for each order")));
  }
};

struct HostFilesTaken {
  int answers = 0;

  static constexpr auto fields() {
    return record<HostFilesTaken>(
        required(field("answers", &HostFilesTaken::answers, "that the daemon still waited for")));
  }
};

}  // namespace lockstep::api
