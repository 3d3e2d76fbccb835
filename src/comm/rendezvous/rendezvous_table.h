// RendezvousTable: the entries of a rendezvous, and what its clients wait for. The server has the
// connections: it passes requests in and sends the replies. One request costs as much for any
// number of clients, except that news of a watched key go to each client that watches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::comm {

class RendezvousTable {
 public:
  using ClientId = std::uint64_t;
  // The reply to the request with this number: "ok" or an error's code, and a value.
  using Reply = std::function<void(ClientId, const std::string& number, std::string_view status,
                                   std::string_view value)>;
  // entries: how many; entry: the bytes of a key and its value together.
  RendezvousTable(std::size_t entries, Bytes entry, Reply reply)
      : entries_limit_(entries), entry_limit_(entry), reply_(std::move(reply)) {}

  struct Request {
    std::string number, verb, key, value;
  };
  // verb: S sets, G gets, W leaves a tombstone, N watches the keys with a prefix.
  void handle(ClientId client, const Request& request);
  // The client's connection has ended: sets its tombstones.
  void remove(ClientId client);

 private:
  struct PendingGet {
    ClientId client;
    std::string number;
  };
  struct Watch {
    std::string number, prefix;
  };
  // The entry to set when a connection ends.
  struct Tombstone {
    std::string key, value;
  };
  struct Client {
    std::vector<std::string> pending_keys;
    std::vector<Tombstone> tombstones;
  };

  void reply(ClientId client, const std::string& number, const Result<void>& outcome);
  Result<void> set(const std::string& key, const std::string& value);
  Result<void> store(const std::string& key, const std::string& value);
  void get(ClientId client, const Request& request);
  void forget_get(ClientId client, const std::string& key);
  void start_watch(ClientId client, Watch watch);
  Result<void> add_tombstone(ClientId client, Tombstone tombstone);

  const std::size_t entries_limit_;
  const Bytes entry_limit_;
  const Reply reply_;
  std::map<std::string, std::string> entries_;
  std::unordered_map<std::string, std::vector<PendingGet>> pending_gets_;  // by key
  std::map<ClientId, Watch> watches_;
  std::unordered_map<ClientId, Client> clients_;  // those with something to remember
};

}  // namespace lockstep::comm
