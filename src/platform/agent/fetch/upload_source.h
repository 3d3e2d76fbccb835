// Where an agent gets the files of its run's uploaded folder: the daemon, or a test.
#pragma once

#include "base/result.h"
#include "platform/api/upload_messages.h"

namespace lockstep::agent {

class UploadSource {
 public:
  virtual ~UploadSource() = default;
  virtual Result<model::UploadManifest> manifest() = 0;
  // The first of the parts, as many as the source gives at once, and one at least.
  virtual Result<api::UploadParts> parts(const api::UploadPartsRequest& request) = 0;
};

}  // namespace lockstep::agent
