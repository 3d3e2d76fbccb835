// Writer: the training that writes a folder of checkpoints, and the claim that identifies it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/os/environment.h"
#include "base/result.h"
#include "base/units.h"
#include "text/record.h"

namespace lockstep::train {

// The same on all ranks of an attempt. Outside of `lockstep run` the run is empty, and each process
// is a separate writer.
struct Writer {
  std::string store = {};  // the generation of the store that knows the run
  std::string run = {};    // demo/3
  std::int64_t attempt = 0;
  std::int64_t recoveries = 0;  // of this attempt, so far: a later rank 0 has seen more of them

  bool is_run() const { return !run.empty(); }
  bool same_run(const Writer& other) const {
    return is_run() && run == other.run && store == other.store;
  }
  // For writers of one run: a later attempt, or the same one after another recovery.
  bool later_than(const Writer& other) const {
    return std::pair(attempt, recoveries) > std::pair(other.attempt, other.recoveries);
  }
};

// LOCKSTEP_STORE and LOCKSTEP_ATTEMPT, as the agent sets them.
Writer writer_from_environment(const Environment& environment, std::int64_t recoveries = 0);

// Rank 0 of a writer. Two are on one machine if their boot ids are equal: then a lock shows whether
// the other is alive.
struct WriterProcess {
  std::string host;  // for messages
  std::string boot;  // the kernel's boot_id
  std::string name;  // no other process has it, at any time
  std::int64_t pid = 0;

  static WriterProcess of_this_process();
};

// The contents of the file WRITER.
struct WriterClaim {
  std::string id;  // random; no other claim has it, nor any unfinished save but this claim's
  std::string store;
  std::string run;
  std::int64_t attempt = 0;
  std::int64_t recoveries = 0;
  std::string host;
  std::string boot;
  std::string process;
  std::int64_t pid = 0;
  bool locked = false;    // the writer holds a lock on the file
  bool released = false;  // it ended well
  Time claimed{};

  Writer writer() const { return {store, run, attempt, recoveries}; }

  static constexpr auto fields() {
    return record<WriterClaim>(
        required(field("opening", &WriterClaim::id, "random: names this claim")),
        field("store", &WriterClaim::store, "generation of the store that knows the run"),
        field("run", &WriterClaim::run, "that writes; empty: a program outside of a run"),
        field("attempt", &WriterClaim::attempt, "of the run"),
        field("recoveries", &WriterClaim::recoveries, "of the attempt, before the claim"),
        field("host", &WriterClaim::host, "of rank 0"),
        field("boot", &WriterClaim::boot, "its boot_id"),
        field("process", &WriterClaim::process, "rank 0"),
        field("pid", &WriterClaim::pid, "rank 0"),
        field("locked", &WriterClaim::locked, "the writer holds a lock on this file"),
        field("released", &WriterClaim::released, "the writer has ended"),
        required(field("claimed", &WriterClaim::claimed, "when")));
  }
};

WriterClaim claim_of(const Writer& writer, const WriterProcess& process, Time now);

// Parses the text of the file WRITER. corrupt: it is damaged.
Result<WriterClaim> parse_claim(const std::string& content);

// "default/11 (attempt 1, on vm-0)", "process 4711 on vm-0".
std::string text(const WriterClaim& claim);
// "attempt 1 of demo/3", "process 4711 on vm-0".
std::string name_of(const Writer& writer, const WriterProcess& process);

// The relation of a claim to another writer.
enum class Precedence {
  yields,      // it has ended, or is an earlier attempt's
  supersedes,  // it is a later attempt's: the other may not write
  sibling,     // another opening of the same attempt, or by the same program outside of a run
  unrelated,   // yields only if it is not alive
};
Precedence precedence_of(const WriterClaim& claim, const Writer& writer,
                         const WriterProcess& process);

}  // namespace lockstep::train
