// Blobs: named immutable objects, such as files of a folder or objects in S3.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::insight {

// The content of an object. It stays readable after the object was removed.
class Blob {
 public:
  virtual ~Blob() = default;
  virtual std::span<const std::byte> bytes() const = 0;
};

// An object that is being written. It does not exist before commit(); without it, it never does.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  virtual Result<void> write(std::span<const std::byte> bytes) = 0;
  // Durable when this returns. The last call.
  virtual Result<void> commit() = 0;
};

struct BlobName {
  std::string name;
  Bytes size;
};

// May be called by several threads.
class Blobs {
 public:
  virtual ~Blobs() = default;
  // A name has parts of letters, digits, '-', '_' and '.', with '/' between them.
  virtual Result<std::unique_ptr<BlobWriter>> create(const std::string& name) = 0;
  // Shared: queries read an object while its owner forgets it.
  virtual Result<std::shared_ptr<const Blob>> open(const std::string& name) = 0;
  virtual Result<std::vector<BlobName>> list() = 0;  // sorted by name
  // No error if there is no such object.
  virtual Result<void> remove(const std::string& name) = 0;
};

}  // namespace lockstep::insight
