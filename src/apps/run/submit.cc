#include "apps/run/submit.h"

#include "apps/run/follow.h"
#include "apps/run/origin.h"
#include "base/format.h"

namespace lockstep::cli {

Result<api::RunView> submit(client::Client& client, const model::RunSpec& spec,
                            const std::string& request_id) {
  const api::SubmitRequest request{
      .spec = spec,
      .origin = origin_of(spec.working_folder),
      .request_id = request_id.empty() ? client::new_request_id() : request_id};
  bool sent = false;
  auto run = retry_while_away(client, [&] {
    auto submitted = client.submit(request);
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

}  // namespace lockstep::cli
