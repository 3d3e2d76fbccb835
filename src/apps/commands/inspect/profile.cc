#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/trace_file.h"
#include "base/clock.h"
#include "net/base64.h"
#include "platform/api/profile_messages.h"
#include "platform/client/client.h"
#include "text/convert.h"

namespace lockstep::cli {
namespace {

using api::TraceState;

constexpr Duration kPollInterval = std::chrono::seconds(1);

struct ProfileFlags {
  std::string run;
  std::vector<std::string> ranks;
  int steps = 5;
  std::string file;
  std::string wait = "60s";
  bool json = false;
};

struct WrittenTrace {
  std::string run;
  std::string file;
  int steps = 0;
  std::vector<int> ranks = {};
  std::int64_t bytes = 0;

  static constexpr auto fields() {
    return record<WrittenTrace>(field("run", &WrittenTrace::run, "the run"),
                                field("file", &WrittenTrace::file, "its path"),
                                field("steps", &WrittenTrace::steps, "how many each rank recorded"),
                                field("ranks", &WrittenTrace::ranks, "whose traces it has"),
                                field("bytes", &WrittenTrace::bytes, "its size"));
  }
};

Result<int> rank_number(std::string_view words, std::string_view option) {
  int rank = 0;
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), rank);
  if (error == std::errc() && end == words.data() + words.size() && rank >= 0) return rank;
  return Error{Code::invalid,
               format("--rank: expected a rank, or ranks such as 0-3 or 0,2, got '{}'", option)};
}

// "3", "0-3", "0,2" or several of them; sorted.
Result<std::vector<int>> ranks_option(const std::vector<std::string>& options) {
  std::set<int> ranks;
  for (const std::string& option : options)
    for (std::size_t begin = 0; begin <= option.size();) {
      const auto end = std::min(option.find(',', begin), option.size());
      const auto part = std::string_view(option).substr(begin, end - begin);
      const auto dash = std::min(part.find('-'), part.size());
      const int first = TRY(rank_number(part.substr(0, dash), option));
      const int last =
          dash == part.size() ? first : TRY(rank_number(part.substr(dash + 1), option));
      if (last < first || last - first >= 1'000'000) return rank_number("", option).error();
      for (int rank = first; rank <= last; ++rank) ranks.insert(rank);
      begin = end + 1;
    }
  return std::vector<int>(ranks.begin(), ranks.end());
}

std::filesystem::path file_for(const ProfileFlags& flags, const model::RunId& run) {
  if (!flags.file.empty()) return flags.file;
  return format("profile-{}-{}.json.gz", run.project, run.number);
}

// The rank that is least far; null if all are done.
const api::TraceView* slowest(const api::ProfileView& view) {
  const auto least = std::ranges::min_element(
      view.ranks, {}, [](const api::TraceView& each) { return std::pair(each.state, each.steps); });
  return least == view.ranks.end() || least->state >= TraceState::done ? nullptr : &*least;
}

std::string waiting_for(const api::TraceView& trace, int steps) {
  switch (trace.state) {
    case TraceState::absent:
      return format("rank {} to call lockstep.profile_step()", trace.rank);
    case TraceState::recording:
      return format("rank {}, which has recorded {} of {} steps", trace.rank, trace.steps, steps);
    case TraceState::delivering:
      return format("the trace of rank {}", trace.rank);
    default:
      return format("the next step of rank {}", trace.rank);
  }
}

Error waited_too_long(const api::ProfileView& view, const api::TraceView& trace, Duration wait) {
  if (trace.state == TraceState::absent)
    return {Code::invalid,
            format("rank {} of {} has not called lockstep.profile_step() within {}: call it once a "
                   "step in the program's loop, or give a longer --wait if its steps begin later",
                   trace.rank, view.run, text(wait))};
  if (trace.state == TraceState::delivering)
    return {Code::peer_lost,
            format("the trace of rank {} of {} did not come within {}: `lockstep show {}` says how "
                   "its node is",
                   trace.rank, view.run, text(wait), view.run)};
  return {Code::peer_lost,
          format("rank {} of {} made no step within {}: `lockstep flight {}` names the rank that "
                 "holds it up; give a longer --wait if its steps take longer",
                 trace.rank, view.run, text(wait), view.run)};
}

Result<void> check_progress(const api::ProfileView& view) {
  for (const api::TraceView& trace : view.ranks)
    if (trace.state == TraceState::failed)
      return Error{Code::internal,
                   format("rank {} of {} took no trace: {}", trace.rank, view.run, trace.message)};
  if (view.ended && slowest(view) != nullptr)
    return Error{Code::peer_lost,
                 format("the ranks of {} ended before their traces were complete: `lockstep show "
                        "{}` says why",
                        view.run, view.run)};
  return {};
}

// `wait` bounds the time without any progress, because nothing bounds that of a step.
Result<api::ProfileView> wait_for_traces(client::Client& client, const model::RunId& run,
                                         api::ProfileView view, Duration wait) {
  WaitingLine line(NonTerminalOutput::once);
  auto deadline = Deadline::after(wait);
  while (const api::TraceView* trace = slowest(view)) {
    TRY(check_progress(view));
    if (deadline.passed()) return waited_too_long(view, *trace, wait);
    line.show("waiting for " + waiting_for(*trace, view.steps));
    auto next =
        TRY(client.call(api::kProfileState,
                        {.path = run,
                         .query = {view.request_id, view.version,
                                   in_seconds(std::min(kPollInterval, deadline.remaining()))}}));
    if (next.version != view.version) deadline = Deadline::after(wait);
    view = std::move(next);
  }
  TRY(check_progress(view));
  return view;
}

Result<void> add_trace(client::Client& client, const model::RunId& run,
                       const api::ProfileView& view, int rank, TraceFile& file) {
  TRY(file.begin_rank());
  for (std::int64_t offset = 0;;) {
    const auto part =
        TRY(client.call(api::kTrace, {.path = run, .query = {view.request_id, rank, offset}}));
    const auto bytes = net::from_base64(part.bytes);
    if (!bytes || (bytes->empty() && offset != part.total))
      return Error{Code::corrupt, format("the trace of rank {} came damaged: ask again", rank)};
    if (bytes->empty()) return {};
    TRY(file.add({reinterpret_cast<const char*>(bytes->data()), bytes->size()}));
    offset += static_cast<std::int64_t>(bytes->size());
  }
}

std::string summary(const WrittenTrace& written) {
  const auto ranks = written.ranks.size() == 1 ? format("rank {}", written.ranks.front())
                                               : format("{} ranks", written.ranks.size());
  return format("{}: {} {} of {}, {}; open it in https://ui.perfetto.dev", written.file,
                written.steps, written.steps == 1 ? "step" : "steps", ranks,
                text(Bytes(written.bytes)));
}

Result<int> take_profile(const ProfileFlags& flags) {
  const model::RunId run = TRY(run_argument(flags.run));
  const auto ranks = TRY(ranks_option(flags.ranks));
  const Duration wait = TRY(duration_option("--wait", flags.wait));
  const auto path = file_for(flags, run);
  client::Client client = TRY(connect_to_daemon());
  auto file = TRY(TraceFile::create(path));
  auto view = TRY(client.call(
      api::kProfile, {.path = run, .request = {client::new_request_id(), ranks, flags.steps}}));
  view = TRY(wait_for_traces(client, run, std::move(view), wait));
  TRY(file.begin(view.base_us));
  WrittenTrace written{.run = view.run, .file = path.string(), .steps = view.steps};
  for (const api::TraceView& trace : view.ranks) {
    TRY(add_trace(client, run, view, trace.rank, file));
    written.ranks.push_back(trace.rank);
  }
  written.bytes = TRY(file.finish());
  print(flags.json ? dump_json(to_json(written), Indent::two) : summary(written));
  return kDone;
}

}  // namespace

// `lockstep profile RUN`: traces of the next steps of a running program, of several ranks in one
// file.
void add_profile(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("profile", "Record the next steps of running ranks with torch.profiler");
  auto flags = std::make_shared<ProfileFlags>();
  add_run_argument(*command, flags->run);
  command
      ->add_option("--rank", flags->ranks,
                   "a rank, or several such as 0-3 or 0,2; repeatable; all ranks unless given")
      ->type_name("RANKS")
      ->allow_extra_args(false);
  command->add_option("--steps", flags->steps, "how many steps each rank records")
      ->capture_default_str()
      ->check(whole_number(1, api::kProfileStepsMax));
  command
      ->add_option("-o,--output", flags->file,
                   "the file to write; profile-PROJECT-NUMBER.json.gz here unless given")
      ->type_name(kFileValue);
  command->add_option("--wait", flags->wait, "give up when no rank makes progress for this long")
      ->capture_default_str()
      ->type_name("DURATION");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "The program calls lockstep.profile_step() once a step; docs/guide/profile.md.\n"
      "Example:\n  lockstep profile demo/42 --rank 3 --steps 5");
  command->callback([&action, flags] { action = [flags] { return take_profile(*flags); }; });
}

}  // namespace lockstep::cli
