// Reader: what one user may read. It leaves out of a view what the user may not read, and names no
// run of a project that the user cannot read.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/api/messages.h"
#include "platform/core/model/state.h"
#include "platform/identity/rights.h"

namespace lockstep::server {

// In the place of the name of a run.
inline constexpr std::string_view kOtherRun = "a run of another project";

class Reader {
 public:
  // Both outlive this; `state` is the controller's.
  Reader(const identity::Directory& directory, const identity::Bearer& bearer,
         const model::State& state);

  // None: of all projects.
  std::optional<std::vector<std::string>> projects() const;

  // `text` with kOtherRun for each run, attempt and node that it may not read.
  std::string without_names(std::string_view text) const;

  // The view of a run that it may read.
  void limit(api::RunView& view) const;
  void limit(api::RunList& list) const;
  void limit(api::QueueView& view) const;
  void limit(api::PlanView& view) const;
  void limit(api::HostList& list) const;
  void limit(api::LimitList& list) const;
  void limit(api::OrphanList& list) const;
  void limit(api::Version& version) const;

 private:
  bool can_read(std::string_view project) const;
  bool is_hidden(std::string_view word) const;
  void limit(std::string& text) const { text = without_names(text); }
  void limit(std::optional<std::string>& text) const;
  void limit(std::vector<std::string>& lines) const;
  void limit(api::WaitingView& view) const;
  void limit(api::AllocationView& view) const;

  const identity::Directory& directory_;
  const identity::Bearer& bearer_;
  const model::State& state_;
  const bool reads_all_;
};

}  // namespace lockstep::server
