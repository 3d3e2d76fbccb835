#include "lockstep/client.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "platform/api/json.h"
#include "platform/api/routes.h"
#include "platform/client/chosen_daemon.h"
#include "platform/client/client.h"
#include "platform/core/model/run.h"
#include "text/document.h"

namespace lockstep {
namespace {

Result<std::string> current_folder() {
  std::error_code failure;
  const auto folder = std::filesystem::current_path(failure);
  if (!failure) return folder.string();
  return Error{Code::not_found,
               format("the current folder has no name ({}); change to another", failure.message())};
}

Run run_of(const api::RunView& view) {
  Run run{.id = view.id,
          .name = view.name,
          .state = std::string(text(view.state)),
          .ended = is_final(view.state),
          .succeeded = view.state == model::RunState::succeeded,
          .reason = view.reason,
          .metrics = view.latest,
          .json = dump_json(to_json(view))};
  if (view.progress) run.step = view.progress->step;
  return run;
}

Result<model::RunSpec> spec_of(std::string_view run_file) {
  const Document document = TRY(parse_yaml(run_file, "run file"));
  auto spec = TRY(from_document<model::RunSpec>(document));
  if (spec.working_folder.empty()) spec.working_folder = TRY(current_folder());
  if (!spec.command.empty() && spec.name.empty())
    spec.name = std::filesystem::path(spec.command[0]).stem().string();
  TRY(model::check(spec));
  return spec;
}

}  // namespace

struct Client::Impl {
  client::Client client;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::connect() {
  auto client = TRY(client::open_chosen(own_environment()));
  return Client(std::make_unique<Impl>(std::move(client)));
}

Result<Run> Client::submit(std::string_view run_file) {
  api::SubmitRequest request{.spec = TRY(spec_of(run_file)), .origin = {}};
  return run_of(TRY(impl_->client.submit(std::move(request))));
}

Result<Run> Client::run(std::string_view id) {
  return run_of(TRY(impl_->client.call(api::kRun, {.path = TRY(model::parse_run_id(id))})));
}

Result<std::vector<Run>> Client::runs(std::string_view project, int limit) {
  api::RunsQuery query{.project = {}, .state = {}, .limit = limit};
  if (!project.empty()) query.project = std::string(project);
  const auto list = TRY(impl_->client.call(api::kRuns, {.query = query}));
  std::vector<Run> runs;
  for (const auto& view : list.runs) runs.push_back(run_of(view));
  return runs;
}

Result<Run> Client::wait(std::string_view id, std::chrono::microseconds timeout) {
  const auto run = TRY(model::parse_run_id(id));
  const auto deadline = Deadline::after(timeout);
  api::RunQuery query;
  for (;;) {
    const auto view = TRY(impl_->client.call(api::kRun, {.path = run, .query = query}));
    if (is_final(view.state)) return run_of(view);
    if (deadline.passed())
      return Error{Code::timeout, format("{} is still {} after {}; lockstep why {} says more", id,
                                         text(view.state), text(timeout), id)};
    query.after_version = view.version;
    query.wait_seconds =
        std::min(static_cast<double>(api::kWaitMax), in_seconds(deadline.remaining()));
  }
}

Result<Run> Client::stop(std::string_view id, std::string_view reason) {
  return run_of(TRY(impl_->client.call(api::kStop, {.path = TRY(model::parse_run_id(id)),
                                                    .request = {.reason = std::string(reason)}})));
}

Result<LogPage> Client::logs(std::string_view id, std::int64_t after) {
  api::LogsQuery query;
  query.after = after;
  const auto page =
      TRY(impl_->client.call(api::kLogs, {.path = TRY(model::parse_run_id(id)), .query = query}));
  LogPage lines{.lines = {}, .next = page.next};
  for (const auto& line : page.lines) lines.lines.push_back({line.rank, line.text});
  return lines;
}

}  // namespace lockstep
