#include "train/checkpoint/format/writer/writer.h"

#include <array>
#include <charconv>
#include <cstddef>

#include <sys/random.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::train {
namespace {

std::string random_name() {
  std::uint64_t bits = 0;
  LS_CHECK(::getrandom(&bits, sizeof bits, 0) == sizeof bits);
  return format("{:016x}", bits);
}

std::string value_in(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

std::string boot_id() {
  auto content = read_file("/proc/sys/kernel/random/boot_id", 256);
  return content ? content->substr(0, content->find('\n')) : std::string();
}

std::string host_name() {
  auto named = value_in(own_environment(), "LOCKSTEP_HOST_ID");
  if (!named.empty()) return named;
  std::array<char, 256> content{};
  return ::gethostname(content.data(), content.size() - 1) == 0 ? content.data() : "this host";
}

}  // namespace

Writer writer_from_environment(const Environment& environment, std::int64_t recoveries) {
  const auto attempt = value_in(environment, "LOCKSTEP_ATTEMPT");
  const auto dot = attempt.rfind('.');
  if (dot == std::string::npos) return {};
  Writer writer{.store = value_in(environment, "LOCKSTEP_STORE"),
                .run = attempt.substr(0, dot),
                .recoveries = recoveries};
  const auto* const end = attempt.data() + attempt.size();
  const auto read = std::from_chars(attempt.data() + dot + 1, end, writer.attempt);
  return read.ec == std::errc() && read.ptr == end ? writer : Writer();
}

WriterProcess WriterProcess::of_this_process() {
  // A forked child has the random part of its parent, but another pid.
  static const std::string random = random_name();
  const std::int64_t pid = ::getpid();
  return {host_name(), boot_id(), format("{}-{}", pid, random), pid};
}

WriterClaim claim_of(const Writer& writer, const WriterProcess& process, Time now) {
  return {.id = random_name(),
          .store = writer.store,
          .run = writer.run,
          .attempt = writer.attempt,
          .recoveries = writer.recoveries,
          .host = process.host,
          .boot = process.boot,
          .process = process.name,
          .pid = process.pid,
          .claimed = now};
}

Result<WriterClaim> parse_claim(const std::string& content) {
  return from_json<WriterClaim>(TRY(parse_json(content)), UnknownFields::ignore);
}

std::string text(const WriterClaim& claim) {
  if (claim.run.empty()) return format("process {} on {}", claim.pid, claim.host);
  return format("{} (attempt {}, on {})", claim.run, claim.attempt, claim.host);
}

std::string name_of(const Writer& writer, const WriterProcess& process) {
  if (!writer.is_run()) return format("process {} on {}", process.pid, process.host);
  return format("attempt {} of {}", writer.attempt, writer.run);
}

Precedence precedence_of(const WriterClaim& claim, const Writer& writer,
                         const WriterProcess& process) {
  const auto other = claim.writer();
  if (writer.same_run(other)) {
    if (other.later_than(writer)) return Precedence::supersedes;
    if (writer.later_than(other) || claim.released) return Precedence::yields;
    return Precedence::sibling;
  }
  if (claim.released) return Precedence::yields;
  const bool is_same_program =
      claim.run.empty() && !writer.is_run() && claim.process == process.name;
  return is_same_program ? Precedence::sibling : Precedence::unrelated;
}

}  // namespace lockstep::train
