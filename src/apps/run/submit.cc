#include "apps/run/submit.h"

#include "apps/cli/exit_codes.h"
#include "apps/cli/terminal.h"
#include "apps/provenance/repeat_text.h"
#include "apps/provenance/send_artifact.h"
#include "apps/run/origin.h"
#include "apps/run/run_display.h"
#include "base/format.h"

namespace lockstep::cli {
Result<api::RunView> submit(client::Client& client, const model::RunSpec& spec,
                            const std::string& request_id,
                            const std::optional<model::RunId>& source) {
  const api::SubmitRequest request{
      .spec = spec,
      .origin = origin_of(spec.working_folder),
      .request_id = request_id.empty() ? client::new_request_id() : request_id};
  bool sent = false;
  auto run = retry_while_away(client, [&] {
    auto submitted = source ? client.call(api::kFork, {.path = *source, .request = request})
                            : client.submit(request);
    sent |= client.was_sent();
    return submitted;
  });
  if (run) return run;
  if (InterruptHandler::requested()) return Error{Code::cancelled, kInterrupted};
  const Error& error = run.error();
  if (error.code != Code::unavailable && error.code != Code::timeout) return run;
  return Error{error.code,
               sent ? format("{}; it is not known whether the run was submitted: `lockstep ps` "
                             "shows it once the daemon answers, and the same command with "
                             "--request-id {} submits it at most once",
                             error.message, request.request_id)
                    : format("{}; the run was not submitted", error.message)};
}

void keep_changes(client::Client& client, const api::RunView& run) {
  if (!run.origin.git_dirty || run.spec.upload) return;
  const auto keep = [&]() -> Result<void> {
    const std::string changes = TRY(uncommitted_changes(run.spec.working_folder));
    TRY(send_artifact(client, TRY(model::parse_run_id(run.id)), kCodeDiff, changes));
    return {};
  };
  if (const auto kept = keep(); !kept)
    print_to_stderr(
        format("lockstep: the changes of {} that are not committed are not kept with {}: {}",
               run.spec.working_folder, run.id, kept.error().message));
}

Result<int> follow_submitted(client::Client& client, const api::RunView& run,
                             InterruptHandler& interrupt, AfterSubmission after) {
  if (after == AfterSubmission::detach) {
    print(run.id);
    print_to_stderr(reattach_hint(run.id));
    return kDone;
  }
  print_to_stderr(format("submitted {} ({}) on {}; Ctrl-C detaches, the run continues", run.id,
                         run.name, size_text(run.spec)));
  const auto detached = "\ndetached: " + reattach_hint(run.id);
  interrupt.set_message(detached);
  const auto end = TRY(follow(client, TRY(model::parse_run_id(run.id)), {}));
  if (end) {
    if (std::string failure = failure_lines(*end); !failure.empty()) {
      failure.pop_back();
      print_to_stderr(failure);
    }
    return exit_code_for(*end);
  }
  print_to_stderr(detached);
  return kDone;
}

}  // namespace lockstep::cli
